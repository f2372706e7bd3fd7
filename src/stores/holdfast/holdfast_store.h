// The store on Holdfast's own lock service (`holdfast serve`). docs/stores/holdfast.md says what it
// guarantees, and docs/design/0057-lock-service-wire.md explains how the two talk.
//
// It speaks the redis store's protocol over the redis store's connections. The calls are commands
// that the service knows, instead of scripts.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/port/store.h"

namespace holdfast::stores {

// Connects. Errors: kInvalidArgument, kUnavailable, kUnsupported (the server is something else).
Result<std::unique_ptr<port::Store>> make_holdfast_store(port::StoreUrl url,
                                                         const port::StoreContext& context);

}  // namespace holdfast::stores
