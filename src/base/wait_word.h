// Bits that one thread sleeps on and that others set: a futex of its own for each wait. So setting
// them takes no mutex, and the woken thread needs none to look.
//
// Guarantee: what a thread wrote before set() is visible to whoever sees the bits.
// Not guaranteed: that wait() returns only when a bit was set. Callers loop.
// Thread-safety: get() and set() from any thread; one thread waits. A thread in set() may touch the
// word after the waiter has seen the bits, so the setters share its ownership.
// Time: of the steady clock. Source: futex(2).
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace holdfast::base {

class WaitWord {
 public:
  // The highest bit is not for callers.
  std::uint32_t get() const noexcept { return word_.load(std::memory_order_acquire) & ~kSleeps; }

  // Returns the bits before.
  std::uint32_t set(std::uint32_t bits) noexcept {
    const std::uint32_t before = word_.fetch_or(bits, std::memory_order_acq_rel);
    if ((before & kSleeps) != 0) futex(FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
    return before & ~kSleeps;
  }

  // Sleeps while the bits are `seen`.
  void wait(std::uint32_t seen) noexcept { sleep(seen, nullptr); }
  // For at most this long.
  void wait_for(std::uint32_t seen, std::chrono::nanoseconds time) noexcept {
    if (time <= std::chrono::nanoseconds::zero()) return;
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time);
    timespec left{};
    left.tv_sec = static_cast<std::time_t>(whole.count());
    left.tv_nsec = static_cast<long>((time - whole).count());
    sleep(seen, &left);
  }

 private:
  static constexpr std::uint32_t kSleeps = std::uint32_t{1} << 31U;

  void sleep(std::uint32_t seen, const timespec* time) noexcept {
    std::uint32_t expected = seen;
    if (!word_.compare_exchange_strong(expected, seen | kSleeps)) return;
    futex(FUTEX_WAIT_PRIVATE, seen | kSleeps, time);
    word_.fetch_and(~kSleeps, std::memory_order_relaxed);
  }

  void futex(int operation, std::uint32_t value, const timespec* time) noexcept {
    static_assert(sizeof word_ == sizeof(std::uint32_t));
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), operation, value, time, nullptr,
              0);
  }

  std::atomic<std::uint32_t> word_{0};
};

}  // namespace holdfast::base
