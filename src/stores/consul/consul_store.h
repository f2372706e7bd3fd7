// Locks on Consul. See docs/stores/consul.md for URL, options and guarantees.
//
// Guarantee, thread-safety, time, errors: as src/port/store.h and docs/stores/consul.md say.
// Ownership: the loop and the listener outlive the store.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"

namespace holdfast::stores {

// Does no I/O except reading a token's file. The first request shows whether an agent can be
// reached.
// Errors: kInvalidArgument (URL), kPermissionDenied (a token's file), kUnsupported.
Result<std::unique_ptr<port::Store>> make_consul_store(port::StoreUrl url,
                                                       const port::StoreContext& context);

}  // namespace holdfast::stores
