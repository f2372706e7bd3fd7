// The guarantees of the Consul store under each fault. Thread-safety: a pure function.
#pragma once

#include "holdfast/guarantees.h"
#include "src/stores/consul/url.h"

namespace holdfast::stores::consul {

Guarantees guarantees(const ConsulAddress& address);

}  // namespace holdfast::stores::consul
