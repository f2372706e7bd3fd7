// V0: could a store of one memory have granted like this?
//
// It could not if certain leases overlap. Apart from that, tokens give the order of the grants. So
// this rule places the exclusive and shared grants in the order of their tokens, each as early as
// possible: after its invocation, and after the earliest end of those before it. A grant that comes
// after its own return in this way is impossible. The earliest placement never hinders a later
// grant, so the answer is exact. Shared grants between the same two exclusive ones may come in any
// order. Permits claim no fencing, so they have no order.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lab/checker/rules.h"

namespace holdfast::lab {
namespace {

struct Grant {
  const Acquisition* acquisition = nullptr;
  std::uint32_t index = 0;
  std::int64_t end = 0;  // sure_end()

  bool exclusive() const { return acquisition->mode == ModeKind::kExclusive; }
};

class TokenOrder {
 public:
  TokenOrder(const Ledger& ledger, Findings& findings) : ledger_(ledger), findings_(findings) {}

  void check(std::vector<Grant>& grants) {
    std::sort(grants.begin(), grants.end(), [](const Grant& a, const Grant& b) {
      return std::tuple(a.acquisition->token, a.acquisition->acquire.ret) <
             std::tuple(b.acquisition->token, b.acquisition->acquire.ret);
    });
    const Grant* before = nullptr;
    for (const Grant& grant : grants) {
      if (before != nullptr && before->acquisition->token == grant.acquisition->token &&
          (before->exclusive() || grant.exclusive())) {
        report("token-twice", *before, grant, " gave the same token twice: to ");
      } else {
        place(grant);
      }
      before = &grant;
    }
  }

 private:
  struct Floor {
    std::int64_t at = std::numeric_limits<std::int64_t>::min();
    const Grant* by = nullptr;

    void raise(std::int64_t to, const Grant* grant) {
      if (to >= at) *this = {to, grant};
    }
  };

  void place(const Grant& grant) {
    const Floor& floor = grant.exclusive() && shared_.at > exclusive_.at ? shared_ : exclusive_;
    const std::int64_t at = std::max(grant.acquisition->acquire.invoked, floor.at);
    if (at > grant.acquisition->acquire.returned) return misplaced(*floor.by, grant);
    (grant.exclusive() ? exclusive_ : shared_).raise(std::max(at, grant.end), &grant);
  }

  void misplaced(const Grant& before, const Grant& grant) {
    const std::int64_t from =
        std::max(before.acquisition->acquire.returned, grant.acquisition->acquire.returned);
    if (std::min(before.end, grant.end) > from) return;  // Reported as an overlap.
    report("token-order", before, grant, " gave a lower token to a later grant, or two at once: ");
  }

  void report(std::string_view rule, const Grant& a, const Grant& b, const std::string& what) {
    const bool ordered = a.acquisition->acquire.ret < b.acquisition->acquire.ret;
    const Acquisition& first = ordered ? *a.acquisition : *b.acquisition;
    const Acquisition& second = ordered ? *b.acquisition : *a.acquisition;
    findings_.add(Class::kV0, rule, first.acquire.ret, second.acquire.ret, first.acquire.returned,
                  second.acquire.returned, [&] {
                    const auto side = [&](const Acquisition& one) {
                      return owner_text(one.owner) + " token " + token_text(one.token) + " at " +
                             time_text(*ledger_.history, one.acquire.returned) + " (event " +
                             std::to_string(one.acquire.ret) + ")";
                    };
                    return lock_text(*ledger_.history, first.lock) + ": the store" + what +
                           side(first) + ", then " + side(second);
                  });
  }

  const Ledger& ledger_;
  Findings& findings_;
  Floor exclusive_;  // The end of the last exclusive grant ...
  Floor shared_;     // ... and of the shared ones.
};

}  // namespace

void check_store_order(const Ledger& ledger, const CheckOptions& options, Verdict& verdict,
                       Findings& findings) {
  for (const std::vector<std::uint32_t>& of_lock : ledger.by_lock) {
    std::map<int, std::pair<std::vector<Span>, std::vector<Grant>>> incarnations;
    for (const std::uint32_t index : of_lock) {
      const Acquisition& acquisition = ledger.acquisitions[index];
      const int incarnation = incarnation_of(ledger, acquisition);
      if (incarnation < 0) {
        ++verdict.without_incarnation;
        continue;
      }
      auto& [spans, grants] = incarnations[incarnation];
      const std::int64_t end = sure_end(ledger, acquisition);
      const std::int64_t start = acquisition.acquire.returned;
      if (start < end) spans.push_back({start, end, index, index});
      if (acquisition.mode != ModeKind::kPermits && acquisition.token != Token{}) {
        grants.push_back({&acquisition, index, end});
      }
    }
    for (auto& [number, both] : incarnations) {
      find_overlaps(ledger, both.first, [&](const Span& earlier, const Span& later) {
        findings.add(Class::kV0, "overlap", ledger.acquisitions[earlier.acquisition].acquire.ret,
                     ledger.acquisitions[later.acquisition].acquire.ret, later.start,
                     std::min(earlier.end, later.end), [&] {
                       return overlap_text(ledger, earlier, later, "granted at once, it was held");
                     });
      });
      if (options.fenced) TokenOrder(ledger, findings).check(both.second);
    }
  }
}

}  // namespace holdfast::lab
