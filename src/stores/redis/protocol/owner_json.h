// A holder or waiter as JSON that a person can read with redis-cli.
//
// Guarantee: reading gives back what was written, and ignores fields of later versions. Text that
// cannot be read gives an owner without facts, never an error.
// Not guaranteed: text of more than 2 KiB per field is cut; bytes that are not UTF-8 are replaced.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/lock_info.h"
#include "src/machine/types.h"

namespace holdfast::stores::redis {

std::string to_json(const machine::OwnerPtr& owner);
machine::OwnerPtr owner_from_json(std::string_view json);

// The trace of a break: the ended token, and who ended it.
std::string trace_to_json(machine::Token token, const machine::OwnerPtr& by);
BreakInfo trace_from_json(std::string_view json);

}  // namespace holdfast::stores::redis
