// The servers of a lock service, asked one by one: how each is, which ones there are, and which one
// shall step down or stop.
//
// Thread-safety: pure functions, but for the network. Blocking: the address' connect_timeout a
// few times at most; drain_one() takes its patience beside that.
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

// As service_status(). Errors: of the TLS files only.
Result<std::vector<ServerStatus>> ask_servers(const redis::RedisAddress& address);

// A service with two shards or more, as the server that answers first tells. All are asked at once,
// so one that hangs costs no time.
struct ServiceShards {
  std::uint32_t count = 0;
  port::Endpoint told_by{};
  std::vector<std::string> leaders{};  // By shard; empty: not known.
};
// Errors: kUnsupported: the service has one shard; kUnavailable: no server answers by then.
Result<ServiceShards> ask_for_shards(const redis::RedisAddress& address, base::BootInstant by);

// The address of the server that was asked. Errors: see holdfast/stores.h.
Result<std::string> ask_to_step_down(const redis::RedisAddress& address, const std::string& server);

Result<std::vector<ServerMember>> ask_for_members(const redis::RedisAddress& address);

// `server`: "HOST:PORT"; empty: the only one of the address.
Result<std::string> drain_one(const redis::RedisAddress& address, const std::string& server,
                              std::chrono::milliseconds patience);

}  // namespace holdfast::stores::holdfast
