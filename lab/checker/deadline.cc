// V3: did a call that was invoked after the deadline say "held"?
//
// The deadline in force is the latest one that an extension may have set before the call returned,
// unless the owner had been told before that the lock is lost. An extension that was invoked after
// the deadline sets none.
#include <algorithm>
#include <iterator>
#include <utility>

#include "lab/checker/rules.h"

namespace holdfast::lab {
namespace {

// The deadline after each extension, in the order of their invocations.
class Deadlines {
 public:
  explicit Deadlines(const Acquisition& acquisition) {
    for (const Extension& extension : acquisition.extensions) {
      steps_.push_back({extension.call.invoked, extension.deadline});
    }
    std::sort(steps_.begin() + 1, steps_.end());
    for (std::size_t i = 1; i < steps_.size(); ++i) {
      const std::int64_t before = steps_[i - 1].second;
      const bool in_time = steps_[i].first < before;
      steps_[i].second = in_time ? std::max(before, steps_[i].second) : before;
    }
  }

  // The deadline if every extension that may have been applied at `at` was.
  std::int64_t by(std::int64_t at) const {
    const auto after = std::upper_bound(steps_.begin() + 1, steps_.end(), std::pair(at, kNever));
    return std::prev(after)->second;
  }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> steps_;
};

void report(const Ledger& ledger, const Use& use, std::int64_t deadline, Findings& findings) {
  const Acquisition& acquisition = ledger.acquisitions[use.acquisition];
  findings.add(
      Class::kV3, "held-after-deadline", acquisition.acquire.ret, use.call.ret, deadline,
      use.call.invoked, [&] {
        const Event& answer = ledger.event(use.call.ret);
        return lock_text(*ledger.history, acquisition.lock) + ": " + owner_text(acquisition.owner) +
               " was told \"" + std::string(name_of(answer.outcome)) + "\" by a call invoked at " +
               time_text(*ledger.history, use.call.invoked) + " (event " +
               std::to_string(use.call.invoke) + "), " + span_text(use.call.invoked - deadline) +
               " after its deadline; granted in event " + std::to_string(acquisition.acquire.ret);
      });
}

}  // namespace

void check_deadlines(const Ledger& ledger, Findings& findings) {
  std::vector<const Use*> uses;
  for (const Use& use : ledger.held) uses.push_back(&use);
  std::stable_sort(uses.begin(), uses.end(),
                   [](const Use* a, const Use* b) { return a->acquisition < b->acquisition; });
  for (std::size_t i = 0; i < uses.size();) {
    const std::size_t index = uses[i]->acquisition;
    const Acquisition& acquisition = ledger.acquisitions[index];
    const Deadlines deadlines(acquisition);
    for (; i < uses.size() && uses[i]->acquisition == index; ++i) {
      const Call& call = uses[i]->call;
      std::int64_t deadline = deadlines.by(call.returned);
      if (acquisition.told_lost < call.invoked) {
        deadline = std::min(deadline, acquisition.told_lost);
      }
      if (call.invoked >= deadline) report(ledger, *uses[i], deadline, findings);
    }
  }
}

}  // namespace holdfast::lab
