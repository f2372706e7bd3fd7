// A timer of a client's loop, on boot time: what came due while the machine was suspended is done
// at once after its resume. (asio::steady_timer stands still in suspend: a session would be renewed
// late by the time that was left before.)
//
// Thread-safety: the loop only; stop() also where the loop has ended.
// Ownership: the loop outlives it. Errors: the constructor throws std::system_error where there is
// no descriptor to be had.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "src/base/clock.h"

namespace asio {
class io_context;
}

namespace holdfast::port {

class BootTimer {
 public:
  explicit BootTimer(asio::io_context& io);
  ~BootTimer();
  BootTimer(const BootTimer&) = delete;
  BootTimer& operator=(const BootTimer&) = delete;

  // Replaces what was armed before; `on_fire` is never called inline, nor after stop().
  void arm_at(base::BootInstant at, std::function<void()> on_fire);
  void arm(std::chrono::nanoseconds after, std::function<void()> on_fire);
  // It may be armed again.
  void stop() noexcept;
  // In a forked child: let go of without a word to the parent's loop.
  void abandon() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::port
