#include "src/port/boot_timer.h"

#include <unistd.h>

#include <cstdint>
#include <system_error>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "src/base/abandon.h"
#include "src/base/timer_fd.h"

namespace holdfast::port {
struct BootTimer::State : std::enable_shared_from_this<State> {
  explicit State(asio::io_context& io) : descriptor(io, base::make_timer_fd()) {}

  void wait();
  void on_ready();

  asio::posix::stream_descriptor descriptor;
  std::function<void()> on_fire;  // Empty: stopped.
  std::uint64_t waits = 0;        // The number of the wait that counts; those before were given up.
  bool waiting = false;
};

void BootTimer::State::wait() {
  waiting = true;
  descriptor.async_wait(asio::posix::descriptor_base::wait_read,
                        [weak = weak_from_this(), mine = ++waits](const std::error_code& error) {
                          const auto state = weak.lock();
                          if (error || state == nullptr || state->waits != mine) return;
                          state->waiting = false;
                          state->on_ready();
                        });
}

void BootTimer::State::on_ready() {
  std::uint64_t times = 0;
  if (::read(descriptor.native_handle(), &times, sizeof times) != sizeof times) {
    return wait();  // It was put off meanwhile.
  }
  const auto task = std::exchange(on_fire, nullptr);
  task();
}

BootTimer::BootTimer(asio::io_context& io) : state_(std::make_shared<State>(io)) {}

BootTimer::~BootTimer() {
  if (state_ != nullptr) stop();
}

void BootTimer::arm_at(base::BootInstant at, std::function<void()> on_fire) {
  state_->on_fire = std::move(on_fire);
  base::set_timer_fd(state_->descriptor.native_handle(), at);
  if (!state_->waiting) state_->wait();
}

void BootTimer::arm(std::chrono::nanoseconds after, std::function<void()> on_fire) {
  arm_at(base::BootClock::now() + after, std::move(on_fire));
}

void BootTimer::stop() noexcept {
  state_->on_fire = nullptr;
  if (!std::exchange(state_->waiting, false)) return;
  ++state_->waits;
  std::error_code ignored;
  state_->descriptor.cancel(ignored);  // The wait would keep the loop from its end.
}

// The descriptor's destructor would speak to the epoll instance that the parent uses.
void BootTimer::abandon() noexcept {
  if (state_ == nullptr) return;
  ::close(state_->descriptor.native_handle());
  base::abandon(std::exchange(state_, nullptr));
}

}  // namespace holdfast::port
