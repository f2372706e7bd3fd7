// A store that does nothing yet: the beginning of a new one. See docs/internals/write-a-store.md.
//
// Guarantee: each operation answers kUnsupported, once, on the loop; after close(), kClosed.
// Thread-safety: any thread. Ownership: the loop outlives the store. Time: it never waits.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/port/store_url.h"

namespace holdfast::stores {

// Errors: kInvalidArgument (URL).
Result<std::unique_ptr<port::Store>> make_skeleton_store(port::StoreUrl url,
                                                         const port::StoreContext& context);

}  // namespace holdfast::stores
