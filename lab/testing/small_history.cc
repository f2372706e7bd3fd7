#include "lab/testing/small_history.h"

#include <algorithm>
#include <limits>

#include "lab/testing/story.h"

namespace holdfast::lab::testing {
namespace {

using machine::testing::Dice;

std::int64_t upto(Dice& dice, std::int64_t bound) {
  return static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(bound) + 1));
}

SmallHold draw_hold(Dice& dice, bool permits, std::int64_t start, std::uint64_t token) {
  SmallHold hold;
  if (permits) {
    hold.mode = ModeKind::kPermits;
    hold.count = 1 + static_cast<std::uint32_t>(dice.below(2));
  } else {
    hold.mode = dice.one_in(3) ? ModeKind::kShared : ModeKind::kExclusive;
  }
  hold.token = token;
  hold.invoked = start;
  hold.returned = start + upto(dice, 4);
  // The checker makes no claim about permits that have ended when their acquire returns.
  hold.deadline = permits ? hold.returned + 1 + upto(dice, 5) : start + 1 + upto(dice, 9);
  hold.ttl = permits ? 40 : std::max<std::int64_t>(1, hold.deadline - start + upto(dice, 3) - 1);
  std::int64_t now = hold.returned + (permits ? 1 : 0);
  if (dice.one_in(4)) {
    now += upto(dice, 2);
    const std::int64_t answered = now + upto(dice, 2);
    hold.renew = {now, answered};
    hold.renewed_deadline = now + 1 + upto(dice, 6);
  }
  if (dice.one_in(3)) {
    now += upto(dice, 4);
    hold.held = {now, now + upto(dice, 2)};
    now = hold.held->returned;
  }
  if (!dice.one_in(3)) {
    now += upto(dice, 4);
    hold.release = {now, now + upto(dice, 3)};
  }
  return hold;
}

// One step of the exhaustive search: the grant or the end of a hold, or the refusal.
struct Instant {
  std::size_t hold = 0;
  bool is_end = false;
  bool is_busy = false;
  bool must = true;
  std::int64_t from = 0;
  std::int64_t to = 0;
  bool done = false;
};

class Exhaustive {
 public:
  Exhaustive(const SmallHistory& small, bool with_busy) : small_(small) {
    for (std::size_t i = 0; i < small.holds.size(); ++i) {
      const SmallHold& hold = small.holds[i];
      instants_.push_back({i, false, false, true, hold.invoked, hold.returned, false});
      Instant end{i, true, false, true, hold.invoked, possible_end_of(hold), false};
      end.from = std::max(hold.invoked, sure_end_of(hold));
      instants_.push_back(end);
    }
    if (with_busy && small.busy) {
      instants_.push_back({0, false, true, true, small.busy->invoked, small.busy->returned, false});
    }
    granted_.resize(small.holds.size());
    ended_.resize(small.holds.size());
  }

  // Whether some order of all instants, each as early as possible, is right.
  bool possible(std::int64_t now = std::numeric_limits<std::int64_t>::min()) {
    bool finished = true;
    for (Instant& next : instants_) finished = finished && (next.done || !next.must);
    if (finished) return true;
    for (Instant& next : instants_) {
      const std::int64_t at = std::max(now, next.from);
      if (next.done || at > next.to || !right(next)) continue;
      take(next, true);
      const bool found = possible(at);
      take(next, false);
      if (found) return true;
    }
    return false;
  }

 private:
  void take(Instant& next, bool taken) {
    next.done = taken;
    if (!next.is_busy) (next.is_end ? ended_ : granted_)[next.hold] = taken;
  }

  bool holding(std::size_t i) const { return granted_[i] && !ended_[i]; }

  bool right(const Instant& next) const {
    if (next.is_end) return holding(next.hold);
    std::uint32_t permits = 0;
    bool any = false;
    bool any_exclusive = false;
    bool stale = false;
    const SmallHold& mine = small_.holds[next.hold];
    for (std::size_t i = 0; i < small_.holds.size(); ++i) {
      const SmallHold& other = small_.holds[i];
      const bool exclusive = other.mode == ModeKind::kExclusive;
      if (holding(i)) {
        any = true;
        any_exclusive = any_exclusive || exclusive;
        permits += other.count;
      }
      const bool ordered = exclusive || mine.mode == ModeKind::kExclusive;
      if (granted_[i] && ordered && other.token >= mine.token) stale = true;
    }
    if (next.is_busy) return any;
    if (mine.mode == ModeKind::kPermits) return permits + mine.count <= kSmallCapacity;
    return !stale && !(mine.mode == ModeKind::kExclusive ? any : any_exclusive);
  }

  const SmallHistory& small_;
  std::vector<Instant> instants_;
  std::vector<bool> granted_;
  std::vector<bool> ended_;
};

bool believes(const SmallHold& hold, std::int64_t at) {
  if (hold.release && at >= hold.release->invoked) return false;
  if (hold.returned <= at && at < hold.deadline) return true;
  return hold.renew && hold.renew->returned <= at && at < hold.renewed_deadline;
}

bool too_many(const SmallHistory& small, std::int64_t at) {
  std::uint32_t exclusive = 0;
  std::uint32_t shared = 0;
  std::uint32_t permits = 0;
  for (const SmallHold& hold : small.holds) {
    if (!believes(hold, at)) continue;
    if (hold.mode == ModeKind::kExclusive) ++exclusive;
    if (hold.mode == ModeKind::kShared) ++shared;
    if (hold.mode == ModeKind::kPermits) permits += hold.count;
  }
  return exclusive > 1 || (exclusive == 1 && shared > 0) || permits > kSmallCapacity;
}

bool stale_write(const SmallHistory& small) {
  for (const SmallHold& late : small.holds) {
    for (const SmallHold& early : small.holds) {
      if (early.write == 0 || late.write <= early.write) continue;
      if (early.mode != ModeKind::kExclusive || late.mode == ModeKind::kPermits) continue;
      if (late.token <= early.token) return true;
    }
  }
  return false;
}

// Checks all pairs: the later grant was requested after the other had returned, they may belong to
// two incarnations, and its token is not higher.
bool token_went_back(const SmallHistory& small) {
  if (!small.loss) return false;
  const auto before = [&](const SmallHold& hold) { return hold.returned < small.loss->invoked; };
  const auto after = [&](const SmallHold& hold) { return hold.invoked >= small.loss->returned; };
  for (const SmallHold& one : small.holds) {
    for (const SmallHold& other : small.holds) {
      if (one.mode == ModeKind::kPermits || one.returned >= other.invoked) continue;
      if (one.mode == ModeKind::kShared && other.mode == ModeKind::kShared) continue;
      const bool same = (before(one) && before(other)) || (after(one) && after(other));
      if (!same && other.token <= one.token) return true;
    }
  }
  return false;
}

bool held_too_late(const SmallHold& hold) {
  const bool in_time = hold.renew && hold.renew->invoked < hold.deadline;
  if (hold.renew && !in_time) return true;
  if (!hold.held) return false;
  std::int64_t deadline = hold.deadline;
  if (in_time && hold.renew->invoked <= hold.held->returned) {
    deadline = std::max(deadline, hold.renewed_deadline);
  }
  return hold.held->invoked >= deadline;
}

}  // namespace

std::int64_t sure_end_of(const SmallHold& hold) {
  std::int64_t end = std::min(hold.deadline, hold.invoked + hold.ttl);
  if (hold.renew) {
    end = std::max(end, std::min(hold.renewed_deadline, hold.renew->invoked + hold.ttl));
  }
  return hold.release ? std::min(end, hold.release->invoked) : end;
}

std::int64_t possible_end_of(const SmallHold& hold) {
  if (hold.release) return hold.release->returned;
  const std::int64_t end = std::max(hold.deadline, hold.returned + hold.ttl);
  if (!hold.renew) return end;
  return std::max({end, hold.renewed_deadline, hold.renew->returned + hold.ttl});
}

SmallHistory draw_small(Dice& dice) {
  SmallHistory small;
  const std::uint64_t count = 2 + dice.below(3);
  const bool permits = dice.one_in(5);
  std::int64_t start = 0;
  std::uint64_t token = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    token += dice.one_in(12) ? 0 : 1;
    small.holds.push_back(draw_hold(dice, permits, start, 2 + token - (dice.one_in(12) ? 1 : 0)));
    SmallHold& hold = small.holds.back();
    if (hold.release && hold.renew && hold.release->returned <= hold.renew->returned) {
      hold.renew.reset();
    }
    start += upto(dice, 7);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (dice.one_in(2)) small.holds[i].write = 1 + dice.below(1000) * 8 + i;
  }
  if (!permits && dice.one_in(3)) {
    const std::int64_t at = upto(dice, start + 8);
    small.busy = {at, at + upto(dice, 2)};
  }
  if (dice.one_in(4)) {
    const std::int64_t at = upto(dice, start + 8);
    small.loss = {at, at + upto(dice, 3)};
    if (dice.one_in(2)) {
      for (SmallHold& hold : small.holds) {
        if (hold.invoked > at) hold.token += 4;
      }
    }
  }
  return small;
}

History events_of(const SmallHistory& small) {
  Story story;
  std::uint32_t process = 0;
  for (const SmallHold& hold : small.holds) {
    ++process;
    Asked asked{.mode = hold.mode, .count = hold.count, .capacity = kSmallCapacity};
    asked.token = hold.token;
    asked.deadline = hold.deadline;
    asked.ttl = hold.ttl;
    story.acquire(process, hold.invoked, hold.returned, asked);
    const auto call = [&](Kind kind, const std::optional<SmallHold::Times>& times,
                          Outcome outcome) {
      if (times) story.call(kind, process, times->invoked, times->returned, outcome, asked);
    };
    asked.deadline = hold.renewed_deadline;
    call(Kind::kRenew, hold.renew, Outcome::kRenewed);
    call(Kind::kHeld, hold.held, Outcome::kHeld);
    call(Kind::kRelease, hold.release, Outcome::kReleased);
    // Another thread of the same acquisition asks, so that the question may come at any time.
    asked.id = process;
    if (hold.write != 0) story.write(process + 100, 50, hold.write, asked);
  }
  const Asked refused{.outcome = Outcome::kBusy};
  if (small.loss) story.incarnation(small.loss->invoked, small.loss->returned);
  if (small.busy) story.acquire(99, small.busy->invoked, small.busy->returned, refused);
  return story.history();
}

SmallTruth judge_small(const SmallHistory& small) {
  SmallTruth truth;
  truth.v0_legal = Exhaustive(small, /*with_busy=*/false).possible();
  truth.busy_legal = truth.v0_legal && Exhaustive(small, /*with_busy=*/true).possible();
  for (std::int64_t at = 0; at < 80; ++at) truth.v1 = truth.v1 || too_many(small, at);
  truth.v2 = stale_write(small) || token_went_back(small);
  for (const SmallHold& hold : small.holds) truth.v3 = truth.v3 || held_too_late(hold);
  return truth;
}

}  // namespace holdfast::lab::testing
