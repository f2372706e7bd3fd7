// A timer of the loop with one task. The earlier of two times counts. Time: boot time.
// Thread-safety: the loop only; the callback is not called after stop().
#pragma once

#include <functional>
#include <memory>

#include "src/base/clock.h"

namespace asio {
class io_context;
}

namespace holdfast::contend {

class LoopTimer {
 public:
  LoopTimer(asio::io_context& io, std::function<void()> on_fire);
  ~LoopTimer();
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;

  // Replaces the armed time unless that is earlier.
  void arm(base::BootInstant at);
  void stop() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::contend
