#include "src/stores/redlock/guarantees.h"

namespace holdfast::stores::redlock {

Guarantees guarantees(std::chrono::milliseconds longest_ttl, bool tokens) {
  Guarantees result;
  result.store = "redlock";
  result.scope = "all clients of one list of independent Redis servers";
  result.fenced = tokens;
  result.fair = result.shared = result.permits = result.upgrade = false;
  result.list = true;
  result.values = result.multi = result.watch_every_change = false;
  result.survives_restart = result.survives_failover = false;
  result.min_ttl = std::chrono::milliseconds(100);
  result.max_ttl = longest_ttl;
  const Guarantee tokens_grow = tokens ? Guarantee::kYes : Guarantee::kNo;
  const Guarantee declared = tokens ? Guarantee::kDeclared : Guarantee::kNo;
  result.faults = {
      {"holder is killed or stalls", Guarantee::kYes, tokens_grow,
       "its lease ends at the nodes; what it sends later is refused by its token"},
      {"a minority of the nodes is down, paused or cut off", Guarantee::kYes, tokens_grow,
       "the majority decides; late requests meet a mark, or a lease that ends by itself"},
      {"a majority of the nodes is away", Guarantee::kYes, tokens_grow,
       "nobody gets a lock, and holders are told of the loss at their deadlines"},
      {"a node restarts empty or with older data, or is promoted", Guarantee::kYes, tokens_grow,
       "it takes no part for longest_ttl, and until it knows the highest token"},
      {"so many nodes lose their memory that too few know the tokens", Guarantee::kYes, declared,
       "all wait out longest_ttl, and tokens go on from the middle one of the nodes' clocks"},
      {"a node's wall clock jumps", Guarantee::kDeclared, tokens_grow,
       "ahead: its leases and its quarantine end early, which matters where a holder has no more "
       "than a majority"},
      {"a client's wall clock jumps, or its host is suspended", Guarantee::kYes, tokens_grow,
       "deadlines count on boot time"},
  };
  return result;
}

}  // namespace holdfast::stores::redlock
