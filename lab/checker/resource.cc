// V2: did the resource accept a stale token?
//
// The resource's own sequence numbers tell in which order it took the writes. It remembers the
// highest exclusive token; an exclusive write must not fall below it, nor equal it from another
// acquisition; a shared one must exceed it, and never raises it. Permits claim no fencing.
#include <algorithm>
#include <map>

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

}  // namespace holdfast::lab
