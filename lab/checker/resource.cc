// V2: did the resource accept a stale token?
//
// The resource's own sequence numbers tell in which order it took the writes. It remembers the
// highest exclusive token; an exclusive write must not fall below it, nor equal it from another
// acquisition; a shared one must exceed it, and never raises it. Permits claim no fencing.
#include <algorithm>
#include <tuple>

#include "lab/checker/rules.h"

namespace holdfast::lab {
namespace {

std::string stale_text(const Ledger& ledger, const Event& high, const Event& write,
                       std::size_t high_index, std::size_t index) {
  return lock_text(*ledger.history, write.lock) + ": the resource accepted the token " +
         token_text(write.token) + " of " + owner_text(owner_of(write)) + " (" +
         std::string(name_of(write.mode)) + ", event " + std::to_string(index) +
         ") after the token " + token_text(high.token) + " of " + owner_text(owner_of(high)) +
         " (event " + std::to_string(high_index) + ")" +
         (high.token == write.token ? ": equal, but of another acquisition" : "");
}

}  // namespace

void check_resource(const Ledger& ledger, Findings& findings) {
  std::vector<const Use*> writes;
  for (const Use& use : ledger.writes) {
    const Event& write = ledger.event(use.call.ret);
    if (write.mode != ModeKind::kPermits && write.token != Token{}) writes.push_back(&use);
  }
  std::stable_sort(writes.begin(), writes.end(), [&](const Use* a, const Use* b) {
    return ledger.event(a->call.ret).sequence < ledger.event(b->call.ret).sequence;
  });
  std::vector<std::size_t> highest(ledger.history->locks.size(), kNoEvent);
  for (const Use* use : writes) {
    const Event& write = ledger.event(use->call.ret);
    std::size_t& high = highest[write.lock];
    const bool exclusive = write.mode == ModeKind::kExclusive;
    if (high != kNoEvent) {
      const Event& before = ledger.event(high);
      const bool equal_is_stale = !exclusive || write.id != before.id;
      if (write.token < before.token || (write.token == before.token && equal_is_stale)) {
        findings.add(Class::kV2, "stale-write", high, use->call.ret, before.at_ns, write.at_ns,
                     [&] { return stale_text(ledger, before, write, high, use->call.ret); });
        continue;
      }
    }
    if (exclusive) high = use->call.ret;
  }
}

namespace {

// The possible values of the highest token that the resource had seen.
struct High {
  Token token{};
  Id of{};
  bool of_many = false;

  void raise(const Event& write) {
    if (write.token == token && write.id != of) of_many = true;
    if (write.token > token) *this = {write.token, write.id, false};
  }
  bool refuses(const Event& write) const {
    if (write.token != token) return write.token < token;
    return write.mode == ModeKind::kShared || of_many || write.id != of;
  }
};

struct Moment {
  std::int64_t at = 0;
  bool refusal = false;  // Sorted after writes that begin at the same instant.
  std::size_t event = 0;
};

}  // namespace

// A refusal is right only if a write with a higher token may have come before it.
void check_refusals(const Ledger& ledger, Findings& findings) {
  std::vector<Moment> steps;
  const auto may_raise = [&](const Call& call) {
    const Event& write = ledger.event(call.invoke);
    if (write.mode == ModeKind::kExclusive) steps.push_back({call.invoked, false, call.invoke});
  };
  for (const Use& use : ledger.writes) may_raise(use.call);
  for (const Call& call : ledger.open_writes) may_raise(call);
  for (const Call& call : ledger.refused) steps.push_back({call.returned, true, call.ret});
  std::sort(steps.begin(), steps.end(), [](const Moment& a, const Moment& b) {
    return std::tuple(a.at, a.refusal, a.event) < std::tuple(b.at, b.refusal, b.event);
  });
  std::vector<High> high(ledger.history->locks.size());
  for (const Moment& step : steps) {
    const Event& write = ledger.event(step.event);
    if (!step.refusal) {
      high[write.lock].raise(write);
    } else if (!high[write.lock].refuses(write)) {
      findings.add(Class::kMalformed, "refused-without-reason", step.event, step.event, write.at_ns,
                   write.at_ns, [&] {
                     return "history: " + lock_text(*ledger.history, write.lock) +
                            ": the resource refused the token " + token_text(write.token) + " of " +
                            owner_text(owner_of(write)) + " (event " + std::to_string(step.event) +
                            "), and can have seen none above " + token_text(high[write.lock].token);
                   });
    }
  }
}

}  // namespace holdfast::lab
