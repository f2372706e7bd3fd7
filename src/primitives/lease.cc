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

// Boot time may have stood still while the rest of the world went on (a paused virtual machine);
// the wall clock, corrected since, then tells. It may also just have been set: either way only the
// store knows.
bool clocks_disagree(const session::Contender& contender) {
  const std::int64_t outran = base::wall_minus_boot().count() - contender.wall_minus_boot_ns.load();
  return outran > contender.slack_ns.load();
}

LeaseState state_of(const std::shared_ptr<session::Contender>& contender, session::Core& core) {
  const LeaseState state = contender->state.load(std::memory_order_acquire);
  if (state == LeaseState::kReleased || state == LeaseState::kLost) return state;
  if (core.forked()) return LeaseState::kLost;
  const auto now = base::BootClock::now().time_since_epoch().count();
  if (now >= contender->deadline_ns.load(std::memory_order_acquire)) return LeaseState::kLost;
  if (!clocks_disagree(*contender)) return state;
  core.doubt(contender);
  return LeaseState::kInDoubt;
}

bool is_held(const std::shared_ptr<session::Contender>& contender, session::Core& core) {
  const LeaseState state = state_of(contender, core);
  if (state == LeaseState::kHeld) return true;
  return state == LeaseState::kInDoubt && !clocks_disagree(*contender);
}

}  // namespace

Lease::Lease(std::shared_ptr<session::Contender> contender) : contender_(std::move(contender)) {}

Lease::Lease(Lease&& other) noexcept = default;

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Lease old(std::move(*this));
  contender_ = std::move(other.contender_);
  return *this;
}

Lease::~Lease() {
  if (!contender_) return;
  // The contender must not keep the core that keeps the contender.
  const auto core = std::exchange(contender_->core, nullptr);
  if (core) core->release_later(contender_);
}

const std::string& Lease::name() const {
  static const std::string none;
  return contender_ ? contender_->name : none;
}

Mode Lease::mode() const { return contender_ ? contender_->mode_now() : Mode::exclusive(); }

Token Lease::token() const {
  if (!contender_) return {};
  return {contender_->token.epoch, contender_->token.counter};
}

std::string Lease::id() const {
  if (!contender_) return {};
  return primitives::format_lease_id({contender_->name, contender_->mode_now(),
                                      std::chrono::ceil<std::chrono::milliseconds>(contender_->ttl),
                                      contender_->id});
}

LeaseState Lease::state() const {
  if (!contender_) return LeaseState::kReleased;
  const LeaseState own = state_of(contender_, *contender_->core);
  if (!contender_->base || own == LeaseState::kReleased || own == LeaseState::kLost) return own;
  switch (state_of(contender_->base, *contender_->core)) {
    case LeaseState::kHeld: return own;
    case LeaseState::kInDoubt: return LeaseState::kInDoubt;
    case LeaseState::kLost:
    case LeaseState::kReleased: break;
  }
  return LeaseState::kLost;
}

bool Lease::held() const {
  if (!contender_ || !is_held(contender_, *contender_->core)) return false;
  return !contender_->base || is_held(contender_->base, *contender_->core);
}

std::chrono::milliseconds Lease::remaining() const {
  if (!held()) return std::chrono::milliseconds::zero();
  const nanoseconds left = deadline_boottime() - base::BootClock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::milliseconds>(std::max(left, nanoseconds::zero()));
}

nanoseconds Lease::deadline_boottime() const {
  if (!contender_) return {};
  const nanoseconds own(contender_->deadline_ns.load());
  if (!contender_->base) return own;
  return std::min(own, nanoseconds(contender_->base->deadline_ns.load()));
}

std::stop_token Lease::lost() const {
  return contender_ ? session::Core::lost_token(*contender_) : std::stop_token();
}

std::optional<Error> Lease::loss() const {
  if (!contender_) return std::nullopt;
  if (contender_->core && contender_->core->forked()) return contender_->core->forked_error();
  {
    const base::LocalLock lock(contender_->loss_mutex);
    if (contender_->loss) return contender_->loss;
  }
  if (state() != LeaseState::kLost) return std::nullopt;
  // The clock was read before the loop's timer fired.
  return Error(Errc::kLost, "lock '" + contender_->name + "' was lost: its lease ended");
}

Result<void> Lease::release() {
  if (!contender_) return primitives::moved_lease_error();
  return contender_->core->release(contender_);
}

Result<void> Lease::renew() {
  if (!contender_) return primitives::moved_lease_error();
  return contender_->core->renew(contender_);
}

void Lease::detach() {
  if (contender_) contender_->core->detach(contender_);
}

}  // namespace holdfast
