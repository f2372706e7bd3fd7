#include "src/stores/redis/boot_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <system_error>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace holdfast::stores::redis {

// Handlers that Asio still holds keep it alive.
struct BootTimer::State : std::enable_shared_from_this<State> {
  State(asio::io_context& io, std::function<void()> callback)
      : on_fire(std::move(callback)),
        fd(::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)),
        descriptor(io, fd) {}

  void wait() {
    if (waiting || !descriptor.is_open()) return;
    waiting = true;
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this()](std::error_code error) {
                            self->waiting = false;
                            if (error || !self->descriptor.is_open()) return;
                            std::uint64_t expirations = 0;
                            const bool fired =
                                ::read(self->fd, &expirations, sizeof expirations) > 0;
                            self->wait();
                            if (fired) self->on_fire();
                          });
  }

  std::function<void()> on_fire;
  int fd;
  asio::posix::stream_descriptor descriptor;
  bool waiting = false;
};

BootTimer::BootTimer(asio::io_context& io, std::function<void()> on_fire)
    : state_(std::make_shared<State>(io, std::move(on_fire))) {}

BootTimer::~BootTimer() { stop(); }

void BootTimer::arm(base::BootInstant at) noexcept {
  itimerspec when{};
  if (at != base::BootInstant::max()) {
    // Zero would disarm; the past fires at once.
    const auto since_boot = std::max(at.time_since_epoch(), std::chrono::nanoseconds(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
    when.it_value.tv_sec = static_cast<time_t>(seconds.count());
    when.it_value.tv_nsec = static_cast<long>((since_boot - seconds).count());
    state_->wait();
  }
  ::timerfd_settime(state_->fd, TFD_TIMER_ABSTIME, &when, nullptr);
}

void BootTimer::stop() noexcept {
  if (state_ == nullptr) return;
  std::error_code ignored;
  if (state_->descriptor.is_open()) state_->descriptor.close(ignored);
  state_.reset();
}

void BootTimer::abandon() noexcept {
  if (state_ == nullptr) return;
  ::close(state_->fd);
  // The descriptor's destructor would speak to the epoll instance that the parent uses.
  static_cast<void>(new (std::nothrow) std::shared_ptr<State>(std::exchange(state_, nullptr)));
}

}  // namespace holdfast::stores::redis
