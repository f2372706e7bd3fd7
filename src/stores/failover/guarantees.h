// The guarantees of a fail-over chain, as data.
#pragma once

#include <chrono>

#include "holdfast/guarantees.h"

namespace holdfast::stores::failover {

// `authority` is the length of the authority lease.
Guarantees guarantees(std::chrono::milliseconds authority);

}  // namespace holdfast::stores::failover
