#include "lab/recorder/collector.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lab/recorder/region.h"

namespace holdfast::lab {
namespace {

// A file, mapped for reading; null if that failed.
class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (fd >= 0 && ::fstat(fd, &info) == 0 && info.st_size > 0) {
      size_ = static_cast<std::size_t>(info.st_size);
      void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
      if (memory != MAP_FAILED) memory_ = memory;
    }
    empty_ = fd >= 0 && info.st_size == 0;
    if (fd >= 0) ::close(fd);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (memory_ != nullptr) ::munmap(memory_, size_);
  }

  const std::byte* data() const { return static_cast<const std::byte*>(memory_); }
  std::size_t size() const { return size_; }
  bool empty() const { return empty_; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
  bool empty_ = false;
};

Result<void> check_header(const RegionHeader& header, std::size_t size, const std::string& path) {
  if (header.magic != kRegionMagic) {
    return Error(Errc::kCorruptState, "collector: no region of a recorder: " + path);
  }
  if (header.version != kRegionVersion || header.event_size != sizeof(Event)) {
    return Error(Errc::kVersionMismatch, "collector: another version's region: " + path);
  }
  if (header.capacity > (size - kRegionHeaderSize) / sizeof(RegionSlot)) {
    return Error(Errc::kCorruptState, "collector: the file was cut off: " + path);
  }
  const std::uint64_t reserved = header.reserved.load(std::memory_order_acquire);
  if (reserved > header.capacity) {
    return Error(Errc::kQueueFull, "collector: process " + std::to_string(header.process) +
                                       " had room for " + std::to_string(header.capacity) +
                                       " events and recorded " + std::to_string(reserved));
  }
  return {};
}

Result<void> collect_file(const std::string& path, Collected& collected) {
  const Mapped file(path);
  // The process was killed between creating the file and writing its header, so it recorded
  // nothing.
  if (file.empty()) return {};
  if (file.data() == nullptr) return Error(Errc::kUnavailable, "collector: cannot map " + path);
  if (file.size() < kRegionHeaderSize) {
    return Error(Errc::kCorruptState, "collector: the file was cut off: " + path);
  }
  const auto& header = *reinterpret_cast<const RegionHeader*>(file.data());
  if (header.magic == 0 && header.reserved.load(std::memory_order_acquire) == 0) return {};
  if (Result<void> fine = check_header(header, file.size(), path); !fine) return fine;
  const auto* slots = reinterpret_cast<const RegionSlot*>(file.data() + kRegionHeaderSize);
  const std::uint64_t reserved = header.reserved.load(std::memory_order_acquire);
  for (std::uint64_t i = 0; i < reserved; ++i) {
    const std::uint64_t published = slots[i].published.load(std::memory_order_acquire);
    if (published == i + 1) {
      collected.events.push_back(slots[i].event);
    } else if (published == 0) {
      ++collected.torn;
    } else {
      return Error(Errc::kCorruptState,
                   "collector: slot " + std::to_string(i) + " is another one's: " + path);
    }
  }
  ++collected.processes;
  return {};
}

}  // namespace

Result<Collected> collect(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (entry->path().extension() == ".events") paths.push_back(entry->path());
  }
  if (problem) {
    return Error(Errc::kUnavailable, "collector: cannot list " + folder + ": " + problem.message());
  }
  std::sort(paths.begin(), paths.end());
  Collected collected;
  for (const std::string& path : paths) {
    if (Result<void> done = collect_file(path, collected); !done) return done.error();
  }
  std::stable_sort(collected.events.begin(), collected.events.end(),
                   [](const Event& a, const Event& b) { return a.at_ns < b.at_ns; });
  return collected;
}

}  // namespace holdfast::lab
