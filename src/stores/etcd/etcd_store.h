// The store on an etcd cluster (3.4 or later). docs/stores/etcd.md says how it works and what it
// guarantees.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/port/store.h"

namespace holdfast::stores {

// Connects. Errors: kInvalidArgument, kUnavailable, kPermissionDenied.
Result<std::unique_ptr<port::Store>> make_etcd_store(port::StoreUrl url,
                                                     const port::StoreContext& context);

}  // namespace holdfast::stores
