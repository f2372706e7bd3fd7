#include "holdfast/lease.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/primitives/lease_id.h"
#include "src/primitives/moved_lease.h"
#include "src/session/core.h"

namespace holdfast {
namespace {

using std::chrono::nanoseconds;

// Boot time may have stood still while the rest of the world went on, as in a paused virtual
// machine. The wall clock shows this once it is corrected. It may also just have been set, so only
// the store knows.
bool clocks_disagree(const session::Acquisition& acquisition, const session::Core& core) {
  const std::int64_t outran =
      base::wall_minus_boot().count() - acquisition.wall_minus_boot_ns.load();
  return outran > core.slack_ns(acquisition);
}

LeaseState state_of(const std::shared_ptr<session::Acquisition>& acquisition, session::Core& core) {
  const LeaseState state = acquisition->state.load(std::memory_order_acquire);
  if (state == LeaseState::kReleased || state == LeaseState::kLost) return state;
  if (core.forked()) return LeaseState::kLost;
  const auto now = base::BootClock::now().time_since_epoch().count();
  if (now >= acquisition->deadline_ns.load(std::memory_order_acquire)) return LeaseState::kLost;
  if (!clocks_disagree(*acquisition, core)) return state;
  core.doubt(acquisition);
  return LeaseState::kInDoubt;
}

bool is_held(const std::shared_ptr<session::Acquisition>& acquisition, session::Core& core) {
  const LeaseState state = state_of(acquisition, core);
  if (state == LeaseState::kHeld) return true;
  return state == LeaseState::kInDoubt && !clocks_disagree(*acquisition, core);
}

}  // namespace

Lease::Lease(std::shared_ptr<session::Acquisition> acquisition)
    : acquisition_(std::move(acquisition)) {}

Lease::Lease(Lease&& other) noexcept = default;

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Lease old(std::move(*this));
  acquisition_ = std::move(other.acquisition_);
  return *this;
}

Lease::~Lease() {
  if (!acquisition_) return;
  // The acquisition must not keep the core that keeps the acquisition.
  const auto core = std::exchange(acquisition_->core, nullptr);
  if (core) core->release_later(acquisition_);
}

const std::string& Lease::name() const {
  static const std::string none;
  return acquisition_ ? acquisition_->name : none;
}

Mode Lease::mode() const { return acquisition_ ? acquisition_->mode_now() : Mode::exclusive(); }

Token Lease::token() const {
  if (!acquisition_) return {};
  return {acquisition_->token.epoch, acquisition_->token.counter};
}

std::string Lease::id() const {
  if (!acquisition_) return {};
  return primitives::format_lease_id(
      {acquisition_->name, acquisition_->mode_now(),
       std::chrono::ceil<std::chrono::milliseconds>(acquisition_->asked_ttl), acquisition_->id});
}

LeaseState Lease::state() const {
  if (!acquisition_) return LeaseState::kReleased;
  const LeaseState own = state_of(acquisition_, *acquisition_->core);
  if (!acquisition_->base || own == LeaseState::kReleased || own == LeaseState::kLost) return own;
  switch (state_of(acquisition_->base, *acquisition_->core)) {
    case LeaseState::kHeld: return own;
    case LeaseState::kInDoubt: return LeaseState::kInDoubt;
    case LeaseState::kLost:
    case LeaseState::kReleased: break;
  }
  return LeaseState::kLost;
}

bool Lease::held() const {
  if (!acquisition_ || !is_held(acquisition_, *acquisition_->core)) return false;
  return !acquisition_->base || is_held(acquisition_->base, *acquisition_->core);
}

std::chrono::milliseconds Lease::remaining() const {
  if (!held()) return std::chrono::milliseconds::zero();
  const nanoseconds left = deadline_boottime() - base::BootClock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::milliseconds>(std::max(left, nanoseconds::zero()));
}

nanoseconds Lease::deadline_boottime() const {
  if (!acquisition_) return {};
  const nanoseconds own(acquisition_->deadline_ns.load());
  if (!acquisition_->base) return own;
  return std::min(own, nanoseconds(acquisition_->base->deadline_ns.load()));
}

std::stop_token Lease::lost() const {
  return acquisition_ ? session::Core::lost_token(*acquisition_) : std::stop_token();
}

std::optional<Error> Lease::loss() const {
  if (!acquisition_) return std::nullopt;
  if (acquisition_->core && acquisition_->core->forked()) return acquisition_->core->forked_error();
  if (auto loss = acquisition_->why_lost()) return loss;
  if (state() != LeaseState::kLost) return std::nullopt;
  // This clock was read before the loop's timer fired, so the core has no reason yet.
  return Error(Errc::kLost, "lock '" + acquisition_->name + "' was lost: its lease ended");
}

Result<void> Lease::release() {
  if (!acquisition_) return primitives::moved_lease_error();
  return acquisition_->core->release(acquisition_);
}

Result<void> Lease::renew() {
  if (!acquisition_) return primitives::moved_lease_error();
  return acquisition_->core->renew(acquisition_);
}

void Lease::detach() {
  if (acquisition_) acquisition_->core->detach(acquisition_);
}

}  // namespace holdfast
