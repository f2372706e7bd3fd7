// A counter on a Redis server, or on the primary that Sentinels name: a string key with a whole
// number, which other programs raise by INCR and INCRBY.
//
// Each batch is one script: INCRBY alone would make a missing key again, and begin at 1.
//
// Guarantee, thread-safety, errors: as port::NativeCounter. With ?replicas=N numbers that fewer
// have confirmed are kOutcomeUnknown.
// Not guaranteed: that a key outlives a fail-over; forgets() says so.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/stores/redis/opening.h"

namespace holdfast::stores::redis {

// Answers `context.counter`. Errors: as NativeCounterJob; kUnsupported: a cluster.
Result<std::unique_ptr<port::Store>> make_counter(Opening opening,
                                                  const port::StoreContext& context);

}  // namespace holdfast::stores::redis
