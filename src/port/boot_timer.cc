#include "src/port/boot_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <new>
#include <system_error>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace holdfast::port {
namespace {

int make_timer() {
  const int fd = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "cannot make a timer");
  return fd;
}

}  // namespace

struct BootTimer::State : std::enable_shared_from_this<State> {
  explicit State(asio::io_context& io) : descriptor(io, make_timer()) {}

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
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  // Zero would disarm it.
  const auto since_boot = std::max<nanoseconds>(at.time_since_epoch(), nanoseconds(1));
  itimerspec spec{};
  spec.it_value.tv_sec = std::chrono::floor<seconds>(since_boot).count();
  spec.it_value.tv_nsec = (since_boot % seconds(1)).count();
  state_->on_fire = std::move(on_fire);
  ::timerfd_settime(state_->descriptor.native_handle(), TFD_TIMER_ABSTIME, &spec, nullptr);
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
  static_cast<void>(new (std::nothrow) std::shared_ptr<State>(std::exchange(state_, nullptr)));
}

}  // namespace holdfast::port
