// The servers of a lock service, asked one by one: how each is, which ones there are, and which one
// shall step down or stop.
//
// Thread-safety: pure functions, but for the network. Blocking: the address' connect_timeout for
// each server at most; drain_one() takes its patience beside that.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "holdfast/stores.h"
#include "src/base/clock.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::holdfast {

// Errors: of the TLS files only.
Result<std::vector<ServerStatus>> ask_servers(const redis::RedisAddress& address);

// How many shards the service has: two or more. Errors: kUnsupported: one; kUnavailable: no server
// answers.
Result<std::uint32_t> ask_for_shards(const redis::RedisAddress& address);

// The address of the server that was asked. Errors: see holdfast/stores.h.
Result<std::string> ask_to_step_down(const redis::RedisAddress& address);

Result<std::vector<ServerMember>> ask_for_members(const redis::RedisAddress& address);

// `server`: "HOST:PORT"; empty: the only one of the address.
Result<std::string> drain_one(const redis::RedisAddress& address, const std::string& server,
                              std::chrono::milliseconds patience);

}  // namespace holdfast::stores::holdfast
