#include "src/base/clock.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "src/base/fork_guard.h"

namespace holdfast::base {
namespace {

std::chrono::nanoseconds read_clock(clockid_t id) noexcept {
  timespec ts{};
  ::clock_gettime(id, &ts);
  return std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec);
}

// A running process keeps its time namespace (setns needs it to be single-threaded, and we start
// threads); a forked child may stand in another one.
std::chrono::nanoseconds namespace_offset() noexcept {
  const int fd = ::open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};  // A kernel without time namespaces.
  char text[256] = {};
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (size <= 0) return {};
  const char* line = std::strstr(text, "boottime");
  long long seconds = 0;
  long long nanoseconds = 0;
  if (line == nullptr || std::sscanf(line, "boottime %lld %lld", &seconds, &nanoseconds) != 2) {
    return {};
  }
  return std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanoseconds);
}

}  // namespace

BootInstant BootClock::now() noexcept { return BootInstant(read_clock(CLOCK_BOOTTIME)); }

BootInstant host_boot_now() noexcept {
  static std::atomic<std::uint64_t> read_in{0};  // The process that the offset is of.
  static std::atomic<std::int64_t> offset{0};
  const std::uint64_t process = process_generation();
  if (read_in.load(std::memory_order_acquire) != process) {
    offset = namespace_offset().count();
    read_in.store(process, std::memory_order_release);
  }
  return BootClock::now() - std::chrono::nanoseconds(offset);
}

std::chrono::system_clock::time_point wall_now() noexcept {
  return std::chrono::system_clock::now();
}

std::chrono::nanoseconds wall_minus_boot() noexcept {
  // A thread that is descheduled between two readings would see clocks that differ by that time. So
  // the wall clock is read between two readings of the other, and again where these lie far apart.
  constexpr int kTries = 5;
  constexpr std::chrono::nanoseconds kClose = std::chrono::microseconds(100);
  auto closest = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds difference{};
  for (int i = 0; i < kTries && closest > kClose; ++i) {
    const auto before = read_clock(CLOCK_BOOTTIME);
    const auto wall = read_clock(CLOCK_REALTIME);
    const auto after = read_clock(CLOCK_BOOTTIME);
    if (after - before >= closest) continue;
    closest = after - before;
    difference = wall - after;
  }
  return difference;
}

}  // namespace holdfast::base
