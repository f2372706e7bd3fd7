// Known faults of etcd's versions.
//
// Thread-safety: a pure function.
#pragma once

#include <string_view>
#include <vector>

#include "holdfast/guarantees.h"

namespace holdfast::stores::etcd {

// Empty if no fault is known.
std::vector<Finding> judge_version(std::string_view version);

// A leader that stood still may end leases early that were renewed meanwhile.
bool may_end_leases_early(std::string_view version);

}  // namespace holdfast::stores::etcd
