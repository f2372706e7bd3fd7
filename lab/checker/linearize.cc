#include "lab/checker/linearize.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace holdfast::lab {
namespace {

enum class Standing : std::uint8_t { kNowhere, kQueued, kHolding, kGone };

class Search {
 public:
  Search(const std::vector<Ticket>& tickets, const std::vector<Step>& steps, std::size_t limit)
      : tickets_(tickets), steps_(steps), limit_(limit), places_(tickets.size()) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].must) musts_ |= std::uint64_t{1} << i;
    }
  }

  Legality run() {
    if (steps_.size() > 64) return Legality::kUndecided;
    if (explore(0, std::numeric_limits<std::int64_t>::min())) return Legality::kLegal;
    return seen_.size() > limit_ ? Legality::kUndecided : Legality::kIllegal;
  }

 private:
  // `now` is the latest beginning of a taken step, and so the earliest instant of the next one.
  bool explore(std::uint64_t taken, std::int64_t now) {
    if ((taken & musts_) == musts_) return true;
    if (seen_.size() > limit_ || !seen_.insert(taken).second) return false;
    std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (((musts_ & ~taken) >> i & 1) != 0) first_end = std::min(first_end, steps_[i].to);
    }
    if (now > first_end) return false;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      // Another step that must happen would come too late after this one.
      if ((taken >> i & 1) != 0 || step.from > first_end || step.to < now || !fits(step)) continue;
      const Standing before = places_[step.ticket];
      if (step.kind != Step::Kind::kBusy) places_[step.ticket] = after(step.kind);
      const bool found = explore(taken | std::uint64_t{1} << i, std::max(now, step.from));
      places_[step.ticket] = before;
      if (found) return true;
    }
    return false;
  }

  static Standing after(Step::Kind kind) {
    if (kind == Step::Kind::kQueue) return Standing::kQueued;
    return kind == Step::Kind::kGrant ? Standing::kHolding : Standing::kGone;
  }

  bool fits(const Step& step) const {
    const Standing place = places_[step.ticket];
    switch (step.kind) {
      case Step::Kind::kQueue: return place == Standing::kNowhere;
      case Step::Kind::kGrant:
        return (place == Standing::kNowhere || place == Standing::kQueued) &&
               room(step.ticket, /*with_queue=*/false) && in_order(step.ticket);
      case Step::Kind::kEnd: return place == Standing::kHolding || place == Standing::kQueued;
      case Step::Kind::kBusy: return !room(step.ticket, /*with_queue=*/true);
    }
    return false;
  }

  bool room(std::uint32_t own, bool with_queue) const {
    const Ticket& mine = tickets_[own];
    std::uint64_t taken = 0;
    for (std::uint32_t i = 0; i < tickets_.size(); ++i) {
      const bool counts =
          places_[i] == Standing::kHolding || (with_queue && places_[i] == Standing::kQueued);
      if (i == own || !counts) continue;
      if (mine.mode != tickets_[i].mode || mine.mode == ModeKind::kExclusive) return false;
      taken += tickets_[i].count;
    }
    return mine.mode != ModeKind::kPermits || taken + mine.count <= mine.capacity;
  }

  // Exclusive tokens exceed all before them, shared ones all exclusive ones before them.
  bool in_order(std::uint32_t own) const {
    const Ticket& mine = tickets_[own];
    if (mine.token == Token{} || mine.mode == ModeKind::kPermits) return true;
    for (std::uint32_t i = 0; i < tickets_.size(); ++i) {
      const bool granted = places_[i] == Standing::kHolding || places_[i] == Standing::kGone;
      const bool one_exclusive =
          mine.mode == ModeKind::kExclusive || tickets_[i].mode == ModeKind::kExclusive;
      if (i != own && granted && one_exclusive && tickets_[i].token >= mine.token) return false;
    }
    return true;
  }

  const std::vector<Ticket>& tickets_;
  const std::vector<Step>& steps_;
  std::size_t limit_;
  std::vector<Standing> places_;
  std::uint64_t musts_ = 0;
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace

Legality search(const std::vector<Ticket>& tickets, const std::vector<Step>& steps,
                std::size_t limit) {
  return Search(tickets, steps, limit).run();
}

}  // namespace holdfast::lab
