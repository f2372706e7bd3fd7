#include "src/ids/reserving_permit.h"

#include <algorithm>
#include <utility>

#include "src/base/thread.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;

std::int64_t units(const Layout& layout, milliseconds time) {
  return std::max<std::int64_t>(1, time / layout.spec().unit);
}

}  // namespace

ReservingPermit::ReservingPermit(Layout layout, const ReservePlan& plan, Bounds bounds)
    : layout_(std::move(layout)), plan_(plan), bounds_(std::move(bounds)) {
  const base::LocalLock lock(mutex_);
  reserved_until = bounds_.reserved_until;
}

void ReservingPermit::start() {
  thread_ = base::start_thread("hf-ids", [this] { work(); });
}

std::int64_t ReservingPermit::bound_at(const Layout& layout, const ReservePlan& plan,
                                       std::int64_t unit) {
  IdClock& clock = plan.clock != nullptr ? *plan.clock : IdClock::machine();
  const std::int64_t believed = unit + units(layout, plan.forward_at_most);
  const std::int64_t now = std::min(layout.unit_of(clock.read().wall), believed);
  return std::max(now + units(layout, 2 * plan.step), unit + units(layout, plan.small));
}

Result<void> ReservingPermit::ended(std::int64_t unit) {
  const base::LocalLock lock(mutex_);
  if (auto ours = look_at_lease(); !ours) return ours;
  if (unit < bounds_.reserved_until) return {};
  return raise(unit);
}

Result<void> ReservingPermit::keep_rounds(const Rounds& rounds) {
  const base::LocalLock lock(mutex_);
  if (auto ours = look_at_lease(); !ours) return ours;
  Bounds next{bounds_.reserved_until, rounds};
  // If this is kept and nobody learns of it, the generator goes on in the round that it wanted to
  // leave, as far as is reserved. So that is what the record says of the round.
  if (bounds_.rounds && bounds_.rounds->current != rounds.current) {
    std::int64_t& left = next.rounds->used_up_to[bounds_.rounds->current];
    left = std::max(left, bounds_.reserved_until - 1);
  }
  return keep(std::move(next));
}

void ReservingPermit::close(std::int64_t last_unit) {
  stop();
  const base::LocalLock lock(mutex_);
  Bounds next = bounds_;
  next.reserved_until = std::min(next.reserved_until, last_unit + 1);
  static_cast<void>(keep(std::move(next)));  // Otherwise the bound stays higher than needed.
  let_go();
}

Result<void> ReservingPermit::raise(std::int64_t unit) {
  Bounds next = bounds_;
  next.reserved_until = std::max(next.reserved_until, bound_at(layout_, plan_, unit));
  return keep(std::move(next));
}

Result<void> ReservingPermit::keep(Bounds next) {
  if (auto written = write(next); !written) return written;
  bounds_ = std::move(next);
  reserved_until = bounds_.reserved_until;
  return {};
}

void ReservingPermit::look_ahead() {
  const base::LocalLock lock(mutex_);
  if (!look_at_lease()) return;
  const std::int64_t now = come_to.load();
  const bool used = std::exchange(seen_, now) != now;
  if (used && bounds_.reserved_until - now < units(layout_, plan_.step)) {
    static_cast<void>(raise(now));
  }
}

void ReservingPermit::work() {
  for (;;) {
    {
      const base::LocalLock lock(mutex_);
      if (!stopping_) changed_.wait_for(mutex_, plan_.step / 4);
      if (stopping_) return;
    }
    look_ahead();
  }
}

void ReservingPermit::stop() {
  {
    const base::LocalLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace holdfast::ids
