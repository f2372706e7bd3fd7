#include "tests/support/clock_shift.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace holdfast::support {
namespace {

using Offset = std::atomic<std::int64_t>;
static_assert(Offset::is_always_lock_free && sizeof(Offset) == 8);

}  // namespace

ClockShift::ClockShift() : path_(folder_.file("shift")) {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ::ftruncate(fd, sizeof(Offset)) != 0) throw std::runtime_error("no clock file");
  // A server may run as another user.
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  page_ = ::mmap(nullptr, sizeof(Offset), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (page_ == MAP_FAILED) throw std::runtime_error("cannot map the clock file");
}

ClockShift::~ClockShift() { ::munmap(page_, sizeof(Offset)); }

void ClockShift::set(std::chrono::nanoseconds shift) {
  static_cast<Offset*>(page_)->store(shift.count());
}

std::string clock_shim_library() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto installed = program.parent_path() / HOLDFAST_INSTALLED_CLOCK_SHIM;
  if (!failed && std::filesystem::exists(installed, failed)) return installed.lexically_normal();
  return HOLDFAST_TEST_CLOCK_SHIM;
}

std::string clock_shim_variable(const std::string& clock_shift_file) {
  return "HOLDFAST_TEST_CLOCK_FILE=" + clock_shift_file;
}

}  // namespace holdfast::support
