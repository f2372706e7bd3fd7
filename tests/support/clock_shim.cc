// Preloaded: shifts CLOCK_REALTIME, and nothing else, by the nanoseconds that stand in the file
// that HOLDFAST_TEST_CLOCK_FILE names. The file is mapped, so the clock can jump while we run.
//
// Whoever waits until an instant of that clock would be woken by the kernel's, which nobody shifts.
// So waits for a futex, which is how abseil waits and gRPC's timers with it, are cut into short
// ones. (Those of pthread_cond_timedwait() are not: nobody here has any.)
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
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

std::int64_t to_ns(const timespec& time) {
  return std::int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

timespec to_timespec(std::int64_t ns) {
  return {static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
}

std::int64_t true_ns() {
  timespec now{};
  real_clock_gettime(CLOCK_REALTIME, &now);
  return to_ns(now);
}

std::int64_t shifted_ns() { return true_ns() + offset_ns(); }

#ifdef __x86_64__
struct Call {
  long number;
  long arguments[6];
};

// The kernel's answer. Not libc's syscall(): to look that one up takes memory, which a program's
// own allocator may be fetching with this very call.
long ask_kernel(const Call& call) {
  const auto& [a, b, c, d, e, f] = call.arguments;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long answer = 0;
  asm volatile("syscall"
               : "=a"(answer)
               : "a"(call.number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return answer;
}

bool waits_by_the_wall_clock(const Call& call) {
  const long operation = call.arguments[1];
  return call.number == SYS_futex && (operation & FUTEX_CLOCK_REALTIME) != 0 &&
         (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && call.arguments[3] != 0;
}

long wait_by_the_shifted_clock(Call call) {
  constexpr std::int64_t kSlice = 10'000'000;
  const std::int64_t until = to_ns(*reinterpret_cast<const timespec*>(call.arguments[3]));
  while (true) {
    const std::int64_t left = std::max<std::int64_t>(until - shifted_ns(), 0);
    const timespec next = to_timespec(true_ns() + std::min(left, kSlice));
    call.arguments[3] = reinterpret_cast<long>(&next);
    const long answer = ask_kernel(call);
    if (answer != -ETIMEDOUT || left == 0) return answer;
  }
}
#endif

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

#ifdef __x86_64__
long syscall(long number, ...) noexcept {
  Call call{number, {}};
  va_list rest;
  va_start(rest, number);
  for (long& argument : call.arguments) argument = va_arg(rest, long);
  va_end(rest);
  const long answer =
      waits_by_the_wall_clock(call) ? wait_by_the_shifted_clock(call) : ask_kernel(call);
  constexpr long kMostErrno = 4095;
  if (answer >= 0 || answer < -kMostErrno) return answer;
  errno = static_cast<int>(-answer);
  return -1;
}
#endif

}  // extern "C"
#pragma GCC visibility pop
