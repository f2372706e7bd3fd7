// The guarantees of the etcd store under each fault, as data.
#pragma once

#include <chrono>

#include "holdfast/guarantees.h"

namespace holdfast::stores::etcd {

// `session` is the length of a client's store session, and so the shortest lease.
Guarantees guarantees(std::chrono::seconds session);

}  // namespace holdfast::stores::etcd
