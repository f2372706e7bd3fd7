// Did the locks keep moving?
//
// A lock is idle while no client knows of a holder and no fault lasts. Holds last from the return
// of the acquire to the return of the release, or to the end of the lease. The rest of the time,
// without holds and faults, consists of gaps. A call that waits through too much of a gap shows
// that something did not move. The event that opened the gap tells the kind of violation.
#include <algorithm>
#include <iterator>
#include <utility>

#include "lab/checker/possible_end.h"
#include "lab/checker/rules.h"

namespace holdfast::lab {
namespace {

enum class Opener : std::uint8_t { kStart, kRelease, kLease, kFault };

struct Cover {
  std::int64_t start = 0;
  std::int64_t end = 0;
  Opener opener = Opener::kStart;
  std::size_t event = 0;
};

struct Gap {
  std::int64_t start = 0;
  std::int64_t end = 0;
  Cover before{};
  bool closed = true;  // By a grant or a fault; false if the history just ended.
};

// The faults in the order of their beginnings.
struct Healing {
  std::int64_t begun = 0;
  std::int64_t all_ended = 0;  // This one and those before it.
};

struct Waiter {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::size_t event = 0;  // Its invocation's index.
  bool refused = false;   // A try that was answered "busy".
};

class Liveness {
 public:
  Liveness(const Ledger& ledger, const CheckOptions& options, Findings& findings)
      : ledger_(ledger),
        options_(options),
        findings_(findings),
        end_(ledger.history->events.back().at_ns) {
    covers_.resize(ledger.by_lock.size());
    refused_.resize(ledger.by_lock.size());
    answered_.resize(ledger.by_lock.size());
    waiters_.resize(ledger.by_lock.size());
    for (const std::vector<Call>* calls : {&ledger_.faults, &ledger_.incarnations}) {
      for (const Call& call : *calls) healings_.push_back({call.invoked, call.returned});
    }
    std::sort(healings_.begin(), healings_.end(),
              [](const Healing& a, const Healing& b) { return a.begun < b.begun; });
    std::int64_t ended = ledger_.history->events.front().at_ns;
    for (Healing& each : healings_) each.all_ended = ended = std::max(ended, each.all_ended);
    for (const Acquisition& one : ledger.acquisitions) add(one);
    for (const Attempt& attempt : ledger.attempts) add(attempt);
    std::sort(away_.begin(), away_.end(),
              [](const Call& a, const Call& b) { return a.invoked < b.invoked; });
    for (std::size_t i = away_.size(); i-- > 1;) {
      away_[i - 1].returned = std::min(away_[i - 1].returned, away_[i].returned);
    }
  }

  void check() {
    for (std::uint32_t lock = 0; lock < covers_.size(); ++lock) {
      if (!waiters_[lock].empty()) check(lock);
    }
    for (std::uint32_t lock = 0; lock < refused_.size(); ++lock) {
      if (!refused_[lock].empty()) check_refused(lock);
    }
  }

 private:
  void add(const Acquisition& one) {
    answered_[one.lock].push_back(one.acquire.returned);
    const bool released = one.release_confirmed;
    covers_[one.lock].push_back({one.acquire.returned, possible_end(one, options_.drift_ppm),
                                 released ? Opener::kRelease : Opener::kLease,
                                 released ? one.release.ret : one.acquire.ret});
    if (ledger_.event(one.acquire.invoke).wait_ns > 0) {
      waiters_[one.lock].push_back(
          {one.acquire.invoked, one.acquire.returned, one.acquire.invoke, false});
    }
  }

  void add(const Attempt& attempt) {
    const Event& begun = ledger_.event(attempt.call.invoke);
    const bool pending = attempt.outcome == Outcome::kNone;
    if (attempt.outcome == Outcome::kUnavailable || attempt.outcome == Outcome::kUnknown) {
      refused_[attempt.lock].push_back(attempt.call);
      away_.push_back(attempt.call);
    } else if (!pending) {
      answered_[attempt.lock].push_back(attempt.call.returned);
    }
    if (attempt.outcome == Outcome::kUnknown || (pending && attempt.died != kNever)) {
      const std::int64_t last = pending ? attempt.died : attempt.call.returned;
      covers_[attempt.lock].push_back({attempt.call.invoked,
                                       last + stretched(begun.ttl_ns, options_.drift_ppm),
                                       Opener::kLease, attempt.call.invoke});
      return;
    }
    if (attempt.outcome == Outcome::kUnavailable) return;
    waiters_[attempt.lock].push_back({attempt.call.invoked, std::min(attempt.call.returned, end_),
                                      attempt.call.invoke, attempt.outcome == Outcome::kBusy});
  }

  // The end of the last fault before `from`; kNever if a fault lasts at some time between that and
  // `to`.
  std::int64_t healed(std::int64_t from, std::int64_t to) const {
    const auto after = std::upper_bound(
        healings_.begin(), healings_.end(), to,
        [](std::int64_t at, const Healing& healing) { return at < healing.begun; });
    if (after == healings_.begin()) return ledger_.history->events.front().at_ns;
    const std::int64_t last = std::prev(after)->all_ended;
    return last >= from ? kNever : last;
  }

  // Finds a refused request at a time without faults and without a recent answer.
  void check_refused(std::uint32_t lock) {
    std::vector<std::int64_t>& answered = answered_[lock];
    std::sort(answered.begin(), answered.end());
    std::int64_t told = 0;
    for (const Call& call : refused_[lock]) {
      if (call.invoked - told <= options_.grace_ns) continue;
      const std::int64_t fine = healed(call.invoked, call.returned);
      if (fine == kNever || call.invoked - fine <= options_.grace_ns) continue;
      const auto after = std::upper_bound(answered.begin(), answered.end(), call.returned);
      const std::int64_t since =
          after == answered.begin() ? fine : std::max(fine, *std::prev(after));
      if (call.invoked - since <= options_.grace_ns) continue;
      told = call.invoked;
      findings_.add(Class::kStuck, "refused", call.invoke, call.ret, since, call.returned, [&] {
        return lock_text(*ledger_.history, lock) +
               ": nothing is broken, and nobody was answered since " +
               time_text(*ledger_.history, since) + "; " +
               owner_text(owner_of(ledger_.event(call.invoke))) + " was told \"" +
               std::string(name_of(ledger_.event(call.ret).outcome)) + "\" (event " +
               std::to_string(call.ret) + ")";
      });
    }
  }

  std::vector<Gap> gaps(std::uint32_t lock) {
    std::vector<Cover>& covers = covers_[lock];
    for (const std::vector<Call>* calls : {&ledger_.faults, &ledger_.incarnations}) {
      for (const Call& call : *calls) {
        covers.push_back({call.invoked, call.returned, Opener::kFault, call.invoke});
      }
    }
    std::sort(covers.begin(), covers.end(),
              [](const Cover& a, const Cover& b) { return a.start < b.start; });
    std::vector<Gap> found;
    Cover last{0, ledger_.history->events.front().at_ns, Opener::kStart, 0};
    for (const Cover& cover : covers) {
      if (cover.start > last.end) found.push_back({last.end, cover.start, last, true});
      if (cover.end >= last.end) last = cover;
    }
    if (last.end < end_) found.push_back({last.end, end_, last, false});
    return found;
  }

  void check(std::uint32_t lock) {
    std::vector<Waiter>& waiters = waiters_[lock];
    std::sort(waiters.begin(), waiters.end(),
              [](const Waiter& a, const Waiter& b) { return a.from < b.from; });
    const Waiter* longest = nullptr;  // Among the waiters from before the gap.
    auto next = waiters.begin();
    for (const Gap& gap : gaps(lock)) {
      for (; next != waiters.end() && next->from <= gap.start; ++next) {
        if (longest == nullptr || next->to > longest->to) longest = &*next;
      }
      bool reported = longest != nullptr && judge(lock, gap, *longest);
      for (; next != waiters.end() && next->from < gap.end; ++next) {
        if (!reported) reported = judge(lock, gap, *next);
        if (longest == nullptr || next->to > longest->to) longest = &*next;
      }
    }
  }

  // Whether the gap was too long. A refused try shows that the lock was taken after the gap began.
  bool judge(std::uint32_t lock, const Gap& gap, const Waiter& waiter) {
    const std::int64_t from = waiter.refused ? gap.start : std::max(gap.start, waiter.from);
    const std::int64_t to = waiter.refused ? waiter.from : std::min(gap.end, waiter.to);
    const std::int64_t waited = to - from;
    Class kind = Class::kStuck;
    if (gap.before.opener == Opener::kLease) {
      kind = Class::kOrphaned;
    } else if (gap.before.opener == Opener::kRelease && gap.closed && !waiter.refused) {
      kind = Class::kLostWakeUp;
    }
    const bool wakes = kind == Class::kLostWakeUp && !was_away(from, to);
    if (waited <= (wakes ? options_.wake_ns : options_.grace_ns)) return false;
    report(kind, lock, gap, waiter, {from, to});
    return true;
  }

  // Whether a request that came and went in that time found nobody to serve it. A cluster may elect
  // anew some time after all was healed, and then no waiter is served either.
  bool was_away(std::int64_t from, std::int64_t to) const {
    const auto first =
        std::lower_bound(away_.begin(), away_.end(), from,
                         [](const Call& call, std::int64_t at) { return call.invoked < at; });
    return first != away_.end() && first->returned <= to;
  }

  void report(Class kind, std::uint32_t lock, const Gap& gap, const Waiter& waiter,
              std::pair<std::int64_t, std::int64_t> span) {
    static constexpr std::string_view kSince[] = {
        "nobody had held it since the beginning", "it was free since its release",
        "the last lease on it had ended", "nobody held it, and all was healed"};
    const std::string_view since = kSince[static_cast<std::size_t>(gap.before.opener)];
    findings_.add(kind, "idle", gap.before.event, waiter.event, span.first, span.second, [&] {
      const Event& begun = ledger_.event(waiter.event);
      return lock_text(*ledger_.history, lock) + ": " + std::string(since) + " (event " +
             std::to_string(gap.before.event) + ", until " +
             time_text(*ledger_.history, gap.start) + "), and " + owner_text(owner_of(begun)) +
             (waiter.refused ? " was still told busy (event " : " still waited for it (event ") +
             std::to_string(waiter.event) + ") for " + span_text(span.second - span.first);
    });
  }

  const Ledger& ledger_;
  const CheckOptions& options_;
  Findings& findings_;
  std::int64_t end_;
  std::vector<std::vector<Cover>> covers_;
  std::vector<std::vector<Waiter>> waiters_;
  std::vector<Healing> healings_;
  std::vector<std::vector<Call>> refused_;           // By return: unavailable or unknown.
  std::vector<Call> away_;  // All of them, by invocation; `returned` is the first from there on.
  std::vector<std::vector<std::int64_t>> answered_;  // When other calls got an answer.
};

}  // namespace

void check_liveness(const Ledger& ledger, const CheckOptions& options, Findings& findings) {
  Liveness(ledger, options, findings).check();
}

}  // namespace holdfast::lab
