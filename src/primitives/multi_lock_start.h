// Several locks as one, for primitives that are made of several.
#pragma once

#include <memory>
#include <vector>

#include "holdfast/detail/async.h"
#include "src/session/core.h"

namespace holdfast::primitives {

// As Client::acquire_all().
detail::Start<LeaseSet> start_acquire_all(std::shared_ptr<session::Core> core,
                                          std::vector<LockRequest> locks, AcquireOptions options);

}  // namespace holdfast::primitives
