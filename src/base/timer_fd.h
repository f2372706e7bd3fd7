// A descriptor that becomes readable at an instant of boot time.
#pragma once

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "src/base/clock.h"

namespace holdfast::base {

// Throws std::system_error where there is no descriptor to be had.
inline int make_timer_fd() {
  const int fd = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "cannot make a timer");
  return fd;
}

// Replaces what was set before; BootInstant::max() disarms. An instant of the past fires at once.
// Thread-safety: any thread.
inline void set_timer_fd(int fd, BootInstant at) noexcept {
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  itimerspec when{};
  if (at != BootInstant::max()) {
    // Zero would disarm it.
    const auto since_boot = std::max<nanoseconds>(at.time_since_epoch(), nanoseconds(1));
    when.it_value.tv_sec = std::chrono::floor<seconds>(since_boot).count();
    when.it_value.tv_nsec = (since_boot % seconds(1)).count();
  }
  ::timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace holdfast::base
