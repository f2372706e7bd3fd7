// A holder or waiter as JSON, which a person can read with redis-cli, and which clients of the lock
// service and of Redis send with their requests.
//
// Guarantee: reading gives back what was written, and ignores fields of later versions. Text that
// cannot be read gives an owner without facts, never an error.
// Not guaranteed: a field of more than 2 KiB is cut; bytes that are not UTF-8 are replaced.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/lock_info.h"
#include "src/machine/types.h"

namespace holdfast::port {

machine::OwnerPtr read_owner(std::string_view json);
std::string write_owner(const machine::OwnerPtr& owner);

// The last break of a lock by an operator, {"token":"17","by":{...}}: the ended token, and who
// ended it.
struct BreakTrace {
  machine::Token token{};
  machine::OwnerPtr by{};
};
BreakTrace read_trace(std::string_view json);
std::string write_trace(const BreakTrace& trace);
BreakInfo to_public(const BreakTrace& trace);

}  // namespace holdfast::port
