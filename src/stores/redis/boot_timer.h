// A timer of the loop on boot time: Asio's own stands still while the machine is suspended.
//
// Thread-safety: the loop only, but abandon(). The callback is not called after stop().
#pragma once

#include <functional>
#include <memory>

#include "src/base/clock.h"

namespace asio {
class io_context;
}

namespace holdfast::stores::redis {

class BootTimer {
 public:
  BootTimer(asio::io_context& io, std::function<void()> on_fire);
  ~BootTimer();
  BootTimer(const BootTimer&) = delete;
  BootTimer& operator=(const BootTimer&) = delete;

  // Replaces what was armed before. BootInstant::max(): never.
  void arm(base::BootInstant at) noexcept;
  void stop() noexcept;
  void abandon() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::stores::redis
