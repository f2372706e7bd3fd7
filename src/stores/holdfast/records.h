// The records of ids on the lock service: its kept texts, each call on one connection.
//
// Guarantee, thread-safety, errors: as port::Records. A change is answered after its commit.
// Not guaranteed: more than the server's journal promises; forgets() says what a journal in memory
// loses.
// Blocking: until `by`. Ownership: as port::Records.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::holdfast {

// Answers `context.records`. Errors: kUnavailable, kPermissionDenied, kVersionMismatch.
Result<std::unique_ptr<port::Store>> make_records(redis::RemotePtr remote,
                                                  const port::StoreContext& context);

}  // namespace holdfast::stores::holdfast
