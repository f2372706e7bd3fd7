// The members port of the lock service: the servers on one shared journal, as they tell each other
// of themselves.
//
// Guarantee: no call waits for the store, so nothing here holds up what a server does for locks.
// A server that has died leaves the list some seconds later by itself.
// Not guaranteed: that a server which lives is on the list. While the store takes no writes, an
// earlier entry stays, and a new one has to wait.
//
// Thread-safety: any thread; the destructor not at the same time as a call. `found` comes on a
// thread of the store, never from within the call, and must not block.
// Blocking: the destructor only, which takes this server off the list: a second at most. It drops
// what was not answered.
// Errors: kUnavailable, kPermissionDenied, kCorruptState.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "holdfast/stores.h"
#include "src/base/clock.h"

namespace holdfast::port {

struct MembersList {
  // Sorted by address. Each shard has at most one leader among them.
  std::vector<ServerMember> servers{};
  std::vector<std::string> leaders{};  // By shard; empty: none leads.
  // The addresses of those that leave shards to the others for now.
  std::vector<std::string> yielding{};
};

class Members {
 public:
  using Found = std::function<void(Result<MembersList>)>;

  virtual ~Members() = default;

  // Puts this server on the list, or changes its entry, as soon as the store allows it.
  virtual void announce(ServerMember self, bool yields) = 0;
  virtual void list(base::BootInstant deadline, Found found) = 0;
  // Looks for what operators should know of the store under the journal. `told` comes as `found`
  // does.
  using Examined = std::function<void(Result<std::vector<Finding>>)>;
  virtual void examine(base::BootInstant deadline, Examined told) = 0;
};

}  // namespace holdfast::port
