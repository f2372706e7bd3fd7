#include "lab/checker/spans.h"

#include <algorithm>
#include <array>
#include <queue>
#include <utility>

namespace holdfast::lab {
namespace {

std::int64_t last_instant(const Acquisition& acquisition) {
  return std::min({acquisition.released, acquisition.told_lost, acquisition.died});
}

// Keeps the two spans of different owners that end last so far. They decide whether any span of
// another owner overlaps one that begins now.
class Latest {
 public:
  void add(const Span& span) {
    if (best_[0] == nullptr || span.who == best_[0]->who) {
      if (best_[0] == nullptr || span.end > best_[0]->end) best_[0] = &span;
    } else if (span.end > best_[0]->end) {
      best_[1] = std::exchange(best_[0], &span);
    } else if (best_[1] == nullptr || span.end > best_[1]->end) {
      best_[1] = &span;
    }
  }

  const Span* overlapping(const Span& span) const {
    for (const Span* other : best_) {
      if (other != nullptr && other->who != span.who && other->end > span.start) return other;
    }
    return nullptr;
  }

  // By any owner.
  const Span* running(std::int64_t at) const {
    return best_[0] != nullptr && best_[0]->end > at ? best_[0] : nullptr;
  }

 private:
  std::array<const Span*, 2> best_{};
};

// Which permits are taken at the instant that the sweep has reached.
class Permits {
 public:
  void advance(std::int64_t now) {
    while (!ends_.empty() && ends_.top().first <= now) {
      taken_ -= ends_.top().second;
      ends_.pop();
    }
  }
  void take(std::int64_t until, std::uint32_t count) {
    taken_ += count;
    ends_.emplace(until, count);
  }
  std::uint64_t taken() const { return taken_; }

 private:
  using End = std::pair<std::int64_t, std::uint32_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::uint64_t taken_ = 0;
};

}  // namespace

void append_beliefs(const Acquisition& acquisition, std::uint32_t index, std::vector<Span>& spans) {
  const std::int64_t last = last_instant(acquisition);
  Span span{0, 0, acquisition.owner, index};
  const auto keep = [&] {
    span.end = std::min(span.end, last);
    if (span.start < span.end) spans.push_back(span);
  };
  bool begun = false;
  for (const Extension& extension : acquisition.extensions) {
    if (begun && extension.call.returned <= span.end) {
      span.end = std::max(span.end, extension.deadline);
      continue;
    }
    if (begun) keep();
    begun = true;
    span.start = std::max(extension.call.returned, acquisition.acquire.returned);
    span.end = extension.deadline;
  }
  if (begun) keep();
}

std::int64_t sure_end(const Ledger& ledger, const Acquisition& acquisition) {
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const Extension& extension : acquisition.extensions) {
    const std::int64_t from = extension.call.invoked;
    std::int64_t until = extension.deadline;
    // The lease after a wait counts from a heartbeat, which is known only from the deadline.
    const bool waited = ledger.event(extension.call.invoke).wait_ns > 0;
    if (extension.ttl > 0 && !waited) until = std::min(until, from + extension.ttl);
    const auto jump = std::lower_bound(ledger.clock_jumps.begin(), ledger.clock_jumps.end(), from);
    if (jump != ledger.clock_jumps.end()) until = std::min(until, *jump);
    end = std::max(end, until);
  }
  end = std::min(end, last_instant(acquisition));
  const auto mark = std::partition_point(
      ledger.incarnations.begin(), ledger.incarnations.end(),
      [&](const Call& one) { return one.invoked < acquisition.acquire.invoked; });
  return mark == ledger.incarnations.end() ? end : std::min(end, mark->invoked);
}

int incarnation_of(const Ledger& ledger, const Acquisition& acquisition) {
  const auto& marks = ledger.incarnations;
  const auto begun = std::partition_point(marks.begin(), marks.end(), [&](const Call& mark) {
    return mark.returned <= acquisition.acquire.invoked;
  });
  const auto announced = std::partition_point(begun, marks.end(), [&](const Call& mark) {
    return mark.invoked <= acquisition.acquire.returned;
  });
  return begun == announced ? static_cast<int>(begun - marks.begin()) : -1;
}

void find_overlaps(const Ledger& ledger, std::vector<Span>& spans, const Report& report) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.start, a.acquisition) < std::pair(b.start, b.acquisition);
  });
  std::array<Latest, 3> latest;  // By mode.
  Permits permits;
  for (const Span& span : spans) {
    const Acquisition& acquisition = ledger.acquisitions[span.acquisition];
    const Span* earlier = nullptr;
    for (const ModeKind other : {ModeKind::kExclusive, ModeKind::kShared, ModeKind::kPermits}) {
      // Only exclusive locks exclude others of the same mode.
      if (other == acquisition.mode && other != ModeKind::kExclusive) continue;
      if (earlier == nullptr) earlier = latest[static_cast<std::size_t>(other)].overlapping(span);
    }
    Latest& own = latest[static_cast<std::size_t>(acquisition.mode)];
    if (acquisition.mode == ModeKind::kPermits) {
      permits.advance(span.start);
      permits.take(span.end, acquisition.count);
      if (earlier == nullptr && permits.taken() > acquisition.capacity) {
        earlier = own.overlapping(span);
        if (earlier == nullptr) earlier = own.running(span.start);
        if (earlier == nullptr) earlier = &span;  // This span alone has more permits than exist.
      }
    }
    own.add(span);
    if (earlier != nullptr) report(*earlier, span);
  }
}

}  // namespace holdfast::lab
