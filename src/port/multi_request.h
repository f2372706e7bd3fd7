// The checks of every store on a request for several locks.
//
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "holdfast/result.h"
#include "src/port/store.h"

namespace holdfast::port {

// Errors: kInvalidArgument: none, more than kMostAtOnce, a name twice, or an upgrade.
Result<void> check_multi(const std::vector<AcquireRequest>& requests);

}  // namespace holdfast::port
