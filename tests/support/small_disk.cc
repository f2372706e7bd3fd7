#include "tests/support/small_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/support/temp_folder.h"

namespace holdfast::support {

bool keep_mounts_private() {
  if (::geteuid() != 0 || ::unshare(CLONE_NEWNS) != 0) return false;
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

std::optional<std::string> SmallDisk::unavailable() {
  if (::geteuid() != 0) return "only root may mount one";
  try {
    const TempFolder folder("disk");
    const SmallDisk disk(folder.path(), 1);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return std::nullopt;
}

SmallDisk::SmallDisk(std::string folder, std::int64_t megabytes) : folder_(std::move(folder)) {
  const std::string size = "size=" + std::to_string(megabytes) + "m";
  if (::mount("holdfast", folder_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, size.c_str()) != 0) {
    throw std::runtime_error(
        std::string("a file system of its own is needed, which only root may mount: ") +
        std::strerror(errno));
  }
}

SmallDisk::~SmallDisk() { ::umount2(folder_.c_str(), MNT_DETACH); }

void SmallDisk::fill() {
  const int fd = ::open(ballast().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (fd >= 0 && ::write(fd, block.data(), block.size()) > 0) {
  }
  if (fd >= 0) ::close(fd);
}

void SmallDisk::make_room() { ::unlink(ballast().c_str()); }

}  // namespace holdfast::support
