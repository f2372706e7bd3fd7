// V0 of refused tries, on samples: was there an instant within the call at which the lock can have
// been taken, or queued for?
//
// The search gets only the acquisitions that may have held or queued during the sampled call. The
// others could not make the answer right, so an illegal verdict is certain; a legal one may be too
// kind.
#include <algorithm>
#include <unordered_map>

#include "lab/checker/linearize.h"
#include "lab/checker/possible_end.h"
#include "lab/checker/rules.h"

namespace holdfast::lab {
namespace {

// A sample with more stays undecided.
constexpr std::size_t kMostSteps = 40;
constexpr std::size_t kMostSeen = 10'000;

// How long after its answer an end may be committed at the latest, on a busy machine.
constexpr std::int64_t kCommit = 1'000'000'000;

// How long a server that stood still reads the renewals that waited, before a lease ends.
constexpr std::int64_t kReads = 200'000'000;

// An acquisition or attempt that may have held or queued from `from` to `to`.
struct Presence {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t latest = 0;  // The largest `to` up to here, in the order of `from`.
  const Acquisition* acquisition = nullptr;
  const Attempt* attempt = nullptr;
};

class BusyRule {
 public:
  BusyRule(const Ledger& ledger, const CheckOptions& options, Verdict& verdict, Findings& findings)
      : ledger_(ledger),
        options_(options),
        verdict_(verdict),
        findings_(findings),
        presences_(ledger.by_lock.size()),
        endless_(ledger.by_lock.size()) {
    for (const Acquisition& one : ledger.acquisitions) {
      add(one.lock, {one.acquire.invoked, end_of(one), 0, &one, nullptr});
    }
    for (const Attempt& attempt : ledger.attempts) add(attempt);
    for (std::vector<Presence>& of_lock : presences_) {
      std::sort(of_lock.begin(), of_lock.end(),
                [](const Presence& a, const Presence& b) { return a.from < b.from; });
      std::int64_t latest = std::numeric_limits<std::int64_t>::min();
      for (Presence& one : of_lock) one.latest = latest = std::max(latest, one.to);
    }
  }

  void check() {
    const std::size_t most = options_.busy_samples;
    if (most == 0) return;
    const std::size_t stride = (busy_.size() + most - 1) / most;
    for (std::size_t i = 0; i < busy_.size(); i += stride) judge(*busy_[i]);
  }

 private:
  std::int64_t end_of(const Acquisition& one) const {
    // A store whose clock was set back may keep a lease for very long.
    if (!one.release_confirmed && !ledger_.clock_jumps.empty()) return kNever;
    const std::int64_t end = possible_end(one, options_.drift_ppm);
    std::int64_t ttl = 0;
    for (const Extension& extension : one.extensions) ttl = std::max(ttl, extension.ttl);
    if (one.release_confirmed) return extended(one.acquire.invoked, end, ttl, kCommit);
    return extended(one.acquire.invoked, end + options_.linger_ns, ttl, 0);
  }

  std::int64_t end_of(const Attempt& attempt) const {
    const std::int64_t ttl = ledger_.event(attempt.call.invoke).ttl_ns;
    const std::int64_t end = attempt.call.returned + options_.linger_ns;
    return extended(attempt.call.invoked, end, ttl, kCommit);
  }

  // A server that comes back, or takes over from one that was cut off or stood still, knows the
  // leases of before and gives each its whole length again. It knows the ends that had been
  // committed, which may be some time after the answer. A server that goes on after it stood still
  // leaves that time out of its leases.
  std::int64_t extended(std::int64_t from, std::int64_t end, std::int64_t ttl,
                        std::int64_t commit) const {
    if (!options_.extends) return end;
    const std::int64_t lease = stretched(ttl, options_.drift_ppm) + options_.linger_ns;
    for (const Call& fault : ledger_.faults) {
      const FaultKind kind = ledger_.event(fault.invoke).fault;
      const bool stood_still = kind == FaultKind::kStall || is_pause_of_server(fault);
      const bool ends_term = kind == FaultKind::kRestart || kind == FaultKind::kIsolate ||
                             (stood_still && options_.linger_ns > 0);
      if (!stood_still && !ends_term) continue;
      if (fault.invoked > end + commit || fault.returned < from) continue;
      if (fault.returned == kNever) return kNever;
      if (stood_still && fault.invoked <= end) end += fault.returned - fault.invoked + kReads;
      if (ends_term) end = std::max(end, fault.returned + lease);
    }
    return end;
  }

  bool is_pause_of_server(const Call& fault) const {
    const Event& begun = ledger_.event(fault.invoke);
    const std::vector<std::string>& targets = ledger_.history->targets;
    return begun.fault == FaultKind::kPause && begun.target < targets.size() &&
           !targets[begun.target].starts_with("client");
  }

  void add(std::uint32_t lock, const Presence& presence) {
    (presence.to == kNever ? endless_ : presences_)[lock].push_back(presence);
  }

  void add(const Attempt& attempt) {
    switch (attempt.outcome) {
      case Outcome::kBusy: busy_.push_back(&attempt); return;
      case Outcome::kUnavailable:  // The request may have been withdrawn.
      case Outcome::kTimedOut:
      case Outcome::kCancelled:
        add(attempt.lock, {attempt.call.invoked, end_of(attempt), 0, nullptr, &attempt});
        return;
      default:  // Its request may arrive at any time, or never.
        add(attempt.lock, {attempt.call.invoked, kNever, 0, nullptr, &attempt});
    }
  }

  // Remembers the result: many samples may meet one acquisition with many renewals.
  std::int64_t sure_end_once(const Acquisition& one) {
    const auto [known, fresh] = sure_ends_.try_emplace(&one);
    if (fresh) known->second = sure_end(ledger_, one);
    return known->second;
  }

  std::uint32_t add_ticket(const Event& begun, Token token) {
    tickets_.push_back({begun.mode, begun.count, begun.capacity, token});
    return static_cast<std::uint32_t>(tickets_.size() - 1);
  }

  void add_steps(const Presence& one) {
    const Call& call = one.acquisition != nullptr ? one.acquisition->acquire : one.attempt->call;
    const Event& begun = ledger_.event(call.invoke);
    const bool ordered = options_.fenced && one.acquisition != nullptr;
    const Token token = ordered ? one.acquisition->token : Token{};
    const std::uint32_t ticket = add_ticket(begun, token);
    const bool granted = one.acquisition != nullptr;
    if (begun.wait_ns > 0) {
      steps_.push_back({Step::Kind::kQueue, ticket, call.invoked, call.returned, false});
    }
    steps_.push_back({Step::Kind::kGrant, ticket, call.invoked, call.returned, granted});
    Step end{Step::Kind::kEnd, ticket, call.invoked, kNever, false};
    if (granted) {
      end.from = std::max(end.from, sure_end_once(*one.acquisition));
      end.to = one.to;
      end.must = end.to != kNever;
    }
    steps_.push_back(end);
  }

  // Gathers the presences around a refused try; false if there are too many.
  bool gather(const Attempt& busy) {
    tickets_.clear();
    steps_.clear();
    for (const Presence& one : endless_[busy.lock]) {
      if (one.from <= busy.call.returned) add_steps(one);
      if (steps_.size() > kMostSteps) return false;
    }
    const std::vector<Presence>& of_lock = presences_[busy.lock];
    auto one = std::upper_bound(
        of_lock.begin(), of_lock.end(), busy.call.returned,
        [](std::int64_t at, const Presence& presence) { return at < presence.from; });
    for (std::size_t seen = 0; one != of_lock.begin(); ++seen) {
      --one;
      if (one->latest < busy.call.invoked) return true;
      if (one->to >= busy.call.invoked) add_steps(*one);
      if (steps_.size() > kMostSteps || seen > kMostSeen) return false;
    }
    return true;
  }

  void judge(const Attempt& busy) {
    Legality answer = Legality::kUndecided;
    Legality without = Legality::kUndecided;
    if (gather(busy)) {
      without = search(tickets_, steps_, options_.search_steps);
      const std::uint32_t ticket = add_ticket(ledger_.event(busy.call.invoke), {});
      steps_.push_back({Step::Kind::kBusy, ticket, busy.call.invoked, busy.call.returned, true});
      answer = search(tickets_, steps_, options_.search_steps);
    }
    ++(answer == Legality::kUndecided ? verdict_.busy_undecided : verdict_.busy_judged);
    // If the grants contradict each other even without this try, another rule reports that.
    if (answer == Legality::kIllegal && without == Legality::kLegal) report(busy);
  }

  void report(const Attempt& busy) {
    findings_.add(
        Class::kV0, "busy-without-holder", busy.call.invoke, busy.call.ret, busy.call.invoked,
        busy.call.returned, [&] {
          const Event& begun = ledger_.event(busy.call.invoke);
          return lock_text(*ledger_.history, busy.lock) + ": " + owner_text(owner_of(begun)) +
                 " was told busy between " + time_text(*ledger_.history, busy.call.invoked) +
                 " and " + time_text(*ledger_.history, busy.call.returned) + " (event " +
                 std::to_string(busy.call.ret) + "), when nobody can have held it or waited for it";
        });
  }

  const Ledger& ledger_;
  const CheckOptions& options_;
  Verdict& verdict_;
  Findings& findings_;
  std::vector<std::vector<Presence>> presences_;
  std::vector<std::vector<Presence>> endless_;  // Presences with an unknown end.
  std::vector<const Attempt*> busy_;
  std::unordered_map<const Acquisition*, std::int64_t> sure_ends_;
  std::vector<Ticket> tickets_;
  std::vector<Step> steps_;
};

}  // namespace

void check_busy(const Ledger& ledger, const CheckOptions& options, Verdict& verdict,
                Findings& findings) {
  BusyRule(ledger, options, verdict, findings).check();
}

}  // namespace holdfast::lab
