#include "lab/recorder/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "src/base/clock.h"

namespace holdfast::lab {
namespace {

Error refused(const std::string& what, const std::string& path, int problem) {
  const Errc code = problem == EEXIST ? Errc::kInvalidArgument : Errc::kUnavailable;
  return {code, "recorder: cannot " + what + " " + path + ": " + std::strerror(problem)};
}

}  // namespace

Result<Recorder> Recorder::create(const std::string& folder, std::uint32_t process,
                                  std::uint64_t capacity) {
  const std::string path = folder + "/" + std::to_string(process) + ".events";
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (capacity == 0 || capacity > kMost) {
    return Error(Errc::kInvalidArgument, "recorder: a capacity of 1 to 2^31 events");
  }
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return refused("make", path, errno);
  const std::size_t size = kRegionHeaderSize + capacity * sizeof(RegionSlot);
  // Reserves the blocks, because a full disk would cause a SIGBUS in the middle of a run.
  if (const int problem = ::posix_fallocate(fd, 0, static_cast<off_t>(size)); problem != 0) {
    ::close(fd);
    ::unlink(path.c_str());
    return refused("reserve space for", path, problem);
  }
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int problem = errno;
  ::close(fd);
  if (memory == MAP_FAILED) return refused("map", path, problem);
  auto* header = new (memory) RegionHeader;
  header->version = kRegionVersion;
  header->process = process;
  header->capacity = capacity;
  header->event_size = sizeof(Event);
  // Written last: a file without it belongs to a process that died in this function.
  std::atomic_ref<std::uint64_t>(header->magic).store(kRegionMagic, std::memory_order_release);
  return Recorder(memory, size);
}

Recorder::Recorder(Recorder&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      size_(other.size_),
      calls_(other.calls_.load(std::memory_order_relaxed)) {}

Recorder& Recorder::operator=(Recorder&& other) noexcept {
  if (this == &other) return *this;
  if (memory_ != nullptr) ::munmap(memory_, size_);
  memory_ = std::exchange(other.memory_, nullptr);
  size_ = other.size_;
  calls_.store(other.calls_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return *this;
}

Recorder::~Recorder() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

std::uint64_t trim_region(const std::string& folder, std::uint32_t process) {
  const std::string path = folder + "/" + std::to_string(process) + ".events";
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return 0;
  void* memory = ::mmap(nullptr, kRegionHeaderSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  std::uint64_t recorded = 0;
  struct stat info {};
  const bool whole = memory != MAP_FAILED && ::fstat(fd, &info) == 0 &&
                     static_cast<std::size_t>(info.st_size) >= kRegionHeaderSize;
  if (whole) {
    auto& header = *static_cast<RegionHeader*>(memory);
    recorded = header.reserved.load(std::memory_order_acquire);
    const std::size_t used = kRegionHeaderSize + recorded * sizeof(RegionSlot);
    // An overflowed region keeps its capacity, which shows the overflow.
    if (header.magic == kRegionMagic && recorded < header.capacity) {
      if (::ftruncate(fd, static_cast<off_t>(used)) == 0) header.capacity = recorded;
    } else if (header.magic == 0 && recorded == 0) {
      // The process died in create(), after it had reserved the file.
      [[maybe_unused]] const int kept = ::ftruncate(fd, 0);
    }
  }
  if (memory != MAP_FAILED) ::munmap(memory, kRegionHeaderSize);
  ::close(fd);
  return recorded;
}

RegionHeader& Recorder::header() const { return *static_cast<RegionHeader*>(memory_); }

RegionSlot* Recorder::slots() const {
  // Fresh pages are zero, and so are unpublished slots.
  return reinterpret_cast<RegionSlot*>(static_cast<std::byte*>(memory_) + kRegionHeaderSize);
}

bool Recorder::record(Event event) noexcept {
  event.at_ns = base::host_boot_now().time_since_epoch().count();
  event.process = header().process;
  return record_as_stamped(event);
}

bool Recorder::record_as_stamped(Event event) noexcept {
  const std::uint64_t index = header().reserved.fetch_add(1, std::memory_order_relaxed);
  if (index >= header().capacity) return false;
  RegionSlot& slot = slots()[index];
  slot.event = event;
  slot.published.store(index + 1, std::memory_order_release);
  return true;
}

std::uint64_t Recorder::recorded() const noexcept {
  return header().reserved.load(std::memory_order_relaxed);
}

std::uint64_t Recorder::next_call() noexcept {
  return calls_.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace holdfast::lab
