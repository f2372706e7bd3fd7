// The servers of a lock service, asked one by one: how each is, and which one shall step down.
//
// Thread-safety: pure functions, but for the network. Blocking: the address' connect_timeout for
// each server at most.
#pragma once

#include <string>
#include <vector>

#include "holdfast/result.h"
#include "holdfast/stores.h"
#include "src/base/clock.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::holdfast {

// Errors: of the TLS files only.
Result<std::vector<ServerStatus>> ask_servers(const redis::RedisAddress& address);

// The address of the server that was asked. Errors: see holdfast/stores.h.
Result<std::string> ask_to_step_down(const redis::RedisAddress& address);

}  // namespace holdfast::stores::holdfast
