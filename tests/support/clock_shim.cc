// Preloaded: shifts CLOCK_REALTIME, and nothing else, by the nanoseconds that stand in the file
// that HOLDFAST_TEST_CLOCK_FILE names. The file is mapped, so the clock can jump while we run.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

using Offset = std::atomic<std::int64_t>;

const Offset* map_offset() {
  const char* path = std::getenv("HOLDFAST_TEST_CLOCK_FILE");
  const int fd = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* page = ::mmap(nullptr, sizeof(Offset), PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return page == MAP_FAILED ? nullptr : static_cast<const Offset*>(page);
}

std::int64_t offset_ns() {
  static const Offset* const offset = map_offset();
  return offset == nullptr ? 0 : offset->load();
}

int real_clock_gettime(clockid_t clock, timespec* out) {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return real(clock, out);
}

constexpr std::int64_t kSecond = 1'000'000'000;

timespec to_timespec(std::int64_t ns) {
  return {static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
}

std::int64_t shifted_ns() {
  timespec now{};
  real_clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * kSecond + now.tv_nsec + offset_ns();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int clock_gettime(clockid_t clock, struct timespec* out) noexcept {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) {
    return real_clock_gettime(clock, out);
  }
  *out = to_timespec(shifted_ns());
  return 0;
}

int gettimeofday(struct timeval* out, void*) noexcept {
  const timespec now = to_timespec(shifted_ns());
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1'000;
  return 0;
}

time_t time(time_t* out) noexcept {
  const auto now = static_cast<time_t>(shifted_ns() / kSecond);
  if (out != nullptr) *out = now;
  return now;
}

}  // extern "C"
#pragma GCC visibility pop
