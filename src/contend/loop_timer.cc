#include "src/contend/loop_timer.h"

#include <algorithm>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

namespace holdfast::contend {

struct LoopTimer::State {
  asio::steady_timer timer;
  std::function<void()> on_fire;
  base::BootInstant at = base::BootInstant::max();
};

LoopTimer::LoopTimer(asio::io_context& io, std::function<void()> on_fire)
    : state_(std::make_shared<State>(State{asio::steady_timer(io), std::move(on_fire)})) {}

LoopTimer::~LoopTimer() { stop(); }

void LoopTimer::arm(base::BootInstant at) {
  if (!state_->on_fire || at >= state_->at) return;
  state_->at = at;
  const auto wait = std::max<base::BootClock::duration>(at - base::BootClock::now(), {});
  state_->timer.expires_after(wait);
  state_->timer.async_wait([state = state_, at](const std::error_code& error) {
    if (error || !state->on_fire || state->at != at) return;
    state->at = base::BootInstant::max();
    const auto on_fire = state->on_fire;  // It may stop the timer.
    on_fire();
  });
}

void LoopTimer::stop() noexcept {
  state_->on_fire = nullptr;
  state_->timer.cancel();
}

}  // namespace holdfast::contend
