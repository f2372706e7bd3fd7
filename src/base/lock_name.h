// The rule for names of locks that users give, the same for every client and every port.
//
// Thread-safety: pure functions. Errors: kInvalidArgument.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "holdfast/result.h"

namespace holdfast::base {

constexpr std::size_t kLongestLockName = 256;
// With its namespace, or as an inner lock.
constexpr std::size_t kLongestStoredName = 1'024;

// UTF-8, 1 to 256 bytes, no control characters, no `..` segment. The error tells what is wrong and
// at which byte.
Result<void> check_lock_name(std::string_view name);

// The beginning of names, to list or to watch: as a name, but it may be empty, and have `..` as the
// names of primitives' inner locks do.
Result<void> check_lock_prefix(std::string_view prefix);

// A name as a store keeps it: with its namespace, or as an inner lock. UTF-8, 1 to `most` bytes, no
// control characters.
Result<void> check_stored_name(std::string_view name, std::size_t most = kLongestStoredName);

bool is_utf8(std::string_view text);

// "lock name 'orders': " and then what is wrong with it.
Error bad_lock_name(std::string_view name, const std::string& what);

}  // namespace holdfast::base
