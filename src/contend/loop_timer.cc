#include "src/contend/loop_timer.h"

#include <utility>

#include "src/port/boot_timer.h"

namespace holdfast::contend {

struct LoopTimer::State {
  port::BootTimer timer;
  std::function<void()> on_fire;
  base::BootInstant at = base::BootInstant::max();

  State(asio::io_context& io, std::function<void()> task) : timer(io), on_fire(std::move(task)) {}
};

LoopTimer::LoopTimer(asio::io_context& io, std::function<void()> on_fire)
    : state_(std::make_shared<State>(io, std::move(on_fire))) {}

LoopTimer::~LoopTimer() { stop(); }

void LoopTimer::arm(base::BootInstant at) {
  if (!state_->on_fire || at >= state_->at) return;
  state_->at = at;
  state_->timer.arm_at(at, [weak = std::weak_ptr(state_)] {
    const auto state = weak.lock();
    if (state == nullptr || !state->on_fire) return;
    state->at = base::BootInstant::max();
    const auto on_fire = state->on_fire;  // A copy, because the callback may stop the timer.
    on_fire();
  });
}

void LoopTimer::stop() noexcept {
  state_->on_fire = nullptr;
  state_->timer.stop();
}

}  // namespace holdfast::contend
