// The records of ids on a Redis server, on the primary that Sentinels name, or in a cluster, where
// each record is in the slot of its key.
//
//   hf1:{<key>}:record   "<version> <text>", without expiry; the user of the locks may write it
//
// Each call is one script on one connection. A version is a random number, so that a request of
// before a fail-over cannot meet its version again. Each begins with a deletion of nothing, which a
// replica refuses. While a slot moves, its records are kUnavailable.
//
// Guarantee, thread-safety, errors: as port::Records. With ?replicas=N a change that fewer have
// confirmed is kOutcomeUnknown.
// Not guaranteed: that a change outlives a fail-over; forgets() says so.
// Blocking: until `by`. Ownership: as port::Records; the context's loop outlives it.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/stores/redis/opening.h"

namespace holdfast::stores::redis {

// Answers `context.records`. Errors: kUnavailable, kPermissionDenied; kInvalidArgument: the nodes
// are not of a cluster.
Result<std::unique_ptr<port::Store>> make_records(Opening opening,
                                                  const port::StoreContext& context);

}  // namespace holdfast::stores::redis
