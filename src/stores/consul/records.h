// The records of ids in Consul's key-value store.
//
//   PREFIX/k/KEY   a random word and the text; its ModifyIndex is the version
//
// Consul leaves a key's index as it is where the same value is written again. The random word makes
// every change another one.
//
// Guarantee, thread-safety, errors: as port::Records. read() asks for `?consistent`.
// Blocking: until `by`. Ownership: the context's loop outlives it.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/records.h"
#include "src/port/registry.h"
#include "src/stores/consul/url.h"

namespace holdfast::stores::consul {

// Asks an agent once. Errors: kUnavailable, kPermissionDenied, kUnsupported (no Consul is there).
Result<std::unique_ptr<port::Records>> open_records(const ConsulAddress& address,
                                                    const port::StoreContext& context);

}  // namespace holdfast::stores::consul
