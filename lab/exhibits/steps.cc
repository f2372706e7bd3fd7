#include "lab/exhibits/steps.h"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <vector>

#include "lab/checker/ledger.h"

namespace holdfast::lab {
namespace {

constexpr std::int64_t kMs = 1'000'000;
// Above these times a step shows its wait: for a call that may wait, and for one that may not.
constexpr std::int64_t kWaited = 50 * kMs;
constexpr std::int64_t kDelayed = 100 * kMs;

constexpr std::int64_t kForEver = 600'000 * kMs;

class Teller {
 public:
  Teller(const History& history, const Verdict& verdict,
         const std::map<std::uint32_t, std::string>& names)
      : history_(history), verdict_(verdict), names_(names) {}

  // The story begins with the first printed event.
  std::int64_t zero() const {
    for (const Event& event : history_.events) {
      if (event.lock == 0) return event.at_ns;
    }
    return 0;
  }

  std::vector<ToldStep> tell() {
    for (std::size_t i = 0; i < history_.events.size(); ++i) tell(i);
    for (const Violation& violation : verdict_.violations) {
      // The instant at which the violation was complete.
      const std::int64_t at = std::max(violation.begin_ns, history_.events[violation.second].at_ns);
      steps_.push_back(
          {at, ">>>", std::string(name_of(violation.kind)) + ": " + words_of(violation)});
    }
    return std::move(steps_);
  }

 private:
  std::string name(const Event& event) const {
    const auto found = names_.find(event.process);
    return found == names_.end() ? owner_text(owner_of(event)) : found->second;
  }
  std::string since_start(std::int64_t at) const {
    return std::to_string((at - zero() + kMs / 2) / kMs) + " ms";
  }
  const std::string& target(const Event& event) const { return history_.targets.at(event.target); }

  void add(const Event& event, const std::string& what) {
    steps_.push_back({event.at_ns, name(event), what});
  }

  void tell(std::size_t index) {
    const Event& event = history_.events[index];
    if (event.lock != 0) return;  // Other locks are a warm-up, and not part of the story.
    switch (event.kind) {
      case Kind::kAcquire:
      case Kind::kRelease: return event.phase == Phase::kInvoke ? asked(index) : answered(event);
      case Kind::kWrite:
        if (event.phase == Phase::kReturn) {
          add(event, "writes" + with(event.token) + ": " + std::string(name_of(event.outcome)));
        }
        return;
      case Kind::kLost: return add(event, "is told that the lock is lost");
      case Kind::kDeath: return add(event, "is killed");
      case Kind::kIncarnation:
        if (event.phase == Phase::kReturn) {
          steps_.push_back({event.at_ns, target(event), "has lost its memory"});
        }
        return;
      case Kind::kFault: return fault(event);
      case Kind::kRenew:
      case Kind::kHeld: return;
    }
  }

  std::string until(const Event& granted) const {
    if (granted.deadline_ns - granted.at_ns > kForEver) return "for as long as it likes";
    return "until " + since_start(granted.deadline_ns);
  }

  static std::string with(Token token) {
    return token == Token{} ? "" : " with token " + std::to_string(token.counter);
  }

  void asked(std::size_t index) {
    const Event& event = history_.events[index];
    const auto answer =
        std::find_if(history_.events.begin() + static_cast<std::ptrdiff_t>(index) + 1,
                     history_.events.end(), [&](const Event& later) {
                       return later.process == event.process && later.call == event.call &&
                              later.phase == Phase::kReturn;
                     });
    // A call is printed as a line of its own only if something happened before its answer.
    const std::int64_t most = event.wait_ns > 0 ? kWaited : kDelayed;
    const bool waited = answer != history_.events.end() && answer->at_ns - event.at_ns > most;
    const auto begun = history_.events.begin() + static_cast<std::ptrdiff_t>(index);
    const bool interleaved = std::any_of(
        begun, answer, [&](const Event& between) { return between.process != event.process; });
    if (answer != history_.events.end() && !waited && !interleaved) return;
    add(event, event.kind == Kind::kAcquire ? "asks for the lock" : "begins to release it");
  }

  void answered(const Event& event) {
    switch (event.outcome) {
      case Outcome::kGranted:
        return add(event, "has the lock " + until(event) +
                              (event.token == Token{} ? "" : "," + with(event.token)));
      case Outcome::kBusy: return add(event, "is told: busy");
      case Outcome::kTimedOut: return add(event, "has waited in vain");
      case Outcome::kReleased: return add(event, "has released it");
      case Outcome::kLost: return add(event, "is told: it was not yours any more");
      default: return add(event, "is told: " + std::string(name_of(event.outcome)));
    }
  }

  void fault(const Event& event) {
    const bool begins = event.phase == Phase::kInvoke;
    std::string what;
    if (event.fault == FaultKind::kPause) {
      what = begins ? "is stopped" : "goes on";
    } else {
      what = std::string(name_of(event.fault)) + (begins ? " begins" : " is over");
      std::replace(what.begin(), what.end(), '_', ' ');
    }
    steps_.push_back({event.at_ns, target(event), what});
  }

  std::string words_of(const Violation& violation) const {
    const std::string both =
        name(history_.events[violation.first]) + " and " + name(history_.events[violation.second]);
    if (violation.rule == "two-beliefs") return both + " both believe that they hold it";
    if (violation.rule == "overlap") return "the store has granted it to " + both + " at once";
    if (violation.rule == "token-order") return "the later grant has the lower token";
    if (violation.rule == "stale-write") return "the resource has taken a stale token";
    if (violation.rule == "token-after-loss") return "the later grant has no higher token";
    if (violation.rule == "idle") return "nobody holds it, and nobody gets it";
    return violation.message;
  }

  const History& history_;
  const Verdict& verdict_;
  const std::map<std::uint32_t, std::string>& names_;
  std::vector<ToldStep> steps_;
};

}  // namespace

void print_steps(std::vector<ToldStep> steps, std::int64_t zero_ns, std::ostream& out) {
  std::stable_sort(steps.begin(), steps.end(),
                   [](const ToldStep& a, const ToldStep& b) { return a.at < b.at; });
  std::size_t width = 0;
  for (const ToldStep& step : steps) width = std::max(width, step.who.size());
  for (const ToldStep& step : steps) {
    const std::int64_t ms = (step.at - zero_ns + kMs / 2) / kMs;
    out << std::right << std::setw(6) << ms << " ms  " << std::left
        << std::setw(static_cast<int>(width)) << step.who << "  " << step.what << "\n";
  }
  out << std::right;
}

void print_steps(const History& history, const Verdict& verdict,
                 const std::map<std::uint32_t, std::string>& names, std::ostream& out) {
  if (history.events.empty()) return;
  Teller teller(history, verdict, names);
  print_steps(teller.tell(), teller.zero(), out);
}

}  // namespace holdfast::lab
