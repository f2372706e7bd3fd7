// The findings of `holdfast doctor` about a running memcached.
//
// Thread-safety: pure functions; `done` is called on the loop. Ownership: the engine outlives it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/port/store.h"
#include "src/stores/memcached/engine.h"

namespace holdfast::stores::memcached {

// Whether the server can be used at all, from the reply to `version` and that to `stats settings`.
// Errors: kVersionMismatch (it is older than the commands that are used), kInvalidArgument (it runs
// with -C, without cas numbers), kPermissionDenied.
Result<void> check_server(const Reply& version, const Reply& settings, const std::string& address);

// The findings in the replies to `stats` and `stats settings`.
std::vector<Finding> findings_of(std::string_view stats, std::string_view settings);

void examine(Engine& engine, base::BootInstant deadline, port::Done<std::vector<Finding>> done);

}  // namespace holdfast::stores::memcached
