// V2: did tokens begin again after the store had lost its memory?
//
// A grant that was requested after another had returned must have the higher token (except among
// shared ones), whatever the store forgot between them, because a resource may have seen the
// earlier one. Grants that surely belong to one incarnation are judged by V0. After a change of its
// clock a store may have lost the basis of its tokens, so nothing is judged from then on. Permits
// claim no fencing.
#include <algorithm>
#include <array>

#include "lab/checker/rules.h"

namespace holdfast::lab {
namespace {

struct Given {
  const Acquisition* acquisition = nullptr;
  int incarnation = -1;  // -1 if unknown.
};

// The highest token of the returned grants, and the highest one of another incarnation.
class Highest {
 public:
  void add(const Given& grant) {
    const auto above = [&](const Given& other) {
      return other.acquisition == nullptr || grant.acquisition->token > other.acquisition->token;
    };
    if (above(best_[0])) {
      if (best_[0].acquisition != nullptr && differ(best_[0], grant)) best_[1] = best_[0];
      best_[0] = grant;
    } else if (differ(best_[0], grant) && above(best_[1])) {
      best_[1] = grant;
    }
  }

  // A grant of another incarnation whose token is not below this one's; null if there is none.
  const Acquisition* not_below(const Given& grant) const {
    for (const Given& other : best_) {
      if (other.acquisition != nullptr && differ(other, grant) &&
          other.acquisition->token >= grant.acquisition->token) {
        return other.acquisition;
      }
    }
    return nullptr;
  }

 private:
  static bool differ(const Given& a, const Given& b) {
    return a.incarnation < 0 || a.incarnation != b.incarnation;
  }

  std::array<Given, 2> best_{};
};

void report(const Ledger& ledger, const Acquisition& before, const Acquisition& after,
            Findings& findings) {
  findings.add(Class::kV2, "token-after-loss", before.acquire.ret, after.acquire.ret,
               before.acquire.returned, after.acquire.returned, [&] {
                 return lock_text(*ledger.history, after.lock) +
                        ": the store lost its memory, and its tokens did not grow over that: " +
                        owner_text(before.owner) + " had " + token_text(before.token) + " (event " +
                        std::to_string(before.acquire.ret) + "), and " + owner_text(after.owner) +
                        ", who asked after that, got " + token_text(after.token) + " (event " +
                        std::to_string(after.acquire.ret) + ")";
               });
}

void check_lock(const Ledger& ledger, std::vector<Given> asked, Findings& findings) {
  std::vector<Given> returned = asked;  // Already in that order.
  std::sort(asked.begin(), asked.end(), [](const Given& a, const Given& b) {
    return a.acquisition->acquire.invoke < b.acquisition->acquire.invoke;
  });
  Highest exclusive;
  Highest shared;
  auto next = returned.begin();
  for (const Given& grant : asked) {
    for (; next->acquisition->acquire.returned < grant.acquisition->acquire.invoked; ++next) {
      (next->acquisition->mode == ModeKind::kExclusive ? exclusive : shared).add(*next);
    }
    const Acquisition* before = exclusive.not_below(grant);
    if (before == nullptr && grant.acquisition->mode == ModeKind::kExclusive) {
      before = shared.not_below(grant);
    }
    if (before != nullptr) report(ledger, *before, *grant.acquisition, findings);
  }
}

}  // namespace

void check_tokens_over_losses(const Ledger& ledger, Findings& findings) {
  if (ledger.incarnations.empty()) return;
  const std::int64_t until = ledger.clock_jumps.empty() ? kNever : ledger.clock_jumps.front();
  for (const std::vector<std::uint32_t>& of_lock : ledger.by_lock) {
    std::vector<Given> grants;
    for (const std::uint32_t index : of_lock) {
      const Acquisition& one = ledger.acquisitions[index];
      if (one.mode == ModeKind::kPermits || one.token == Token{}) continue;
      if (one.acquire.returned < until) grants.push_back({&one, incarnation_of(ledger, one)});
    }
    check_lock(ledger, std::move(grants), findings);
  }
}

}  // namespace holdfast::lab
