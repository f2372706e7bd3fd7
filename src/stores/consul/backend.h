// Consul as the engine of contenders wants it (src/contend/backend.h).
//
// A contender is a key that the client's session has acquired; its creation's index is its number.
// To enter is one transaction: the key is acquired, and the lock's folder is read behind that, at
// the same index. See docs/design/0015-consul.md.
//
// Thread-safety: as backend.h says. Ownership: the loop outlives it.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/contend/backend.h"
#include "src/port/registry.h"
#include "src/stores/consul/url.h"

namespace holdfast::stores::consul {

// No I/O. Errors: kUnavailable (libcurl cannot start).
Result<std::unique_ptr<contend::Backend>> make_backend(const ConsulAddress& address,
                                                       const port::StoreContext& context);

}  // namespace holdfast::stores::consul
