// Reads what Sentinels say about a primary, and chooses the answer that counts.
//
// Thread-safety: pure functions. Errors: kUnavailable; kInvalidArgument for a name that the
// Sentinel does not know; others as to_error() has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

struct SentinelAnswer {
  std::string host;
  std::uint16_t port = 0;
  std::uint64_t epoch = 0;

  friend bool operator==(const SentinelAnswer&, const SentinelAnswer&) = default;
};

// A field of the answer to SENTINEL MASTER, which is "name value name value ..."; empty: none.
std::string_view sentinel_field(const Reply& list, std::string_view name);

// From the answers to SENTINEL MASTER and, asked after it, SENTINEL GET-MASTER-ADDR-BY-NAME. So the
// address is never older than the epoch. `where` begins the messages.
Result<SentinelAnswer> sentinel_answer(const Reply& master, const Reply& address,
                                       std::string_view where, std::string_view primary);

// The answer with the highest epoch; nullopt: none is as high as `current`. Among equal epochs an
// answer that agrees with `current` counts, or else the most frequent one.
std::optional<SentinelAnswer> choose(const std::vector<SentinelAnswer>& answers,
                                     const std::optional<SentinelAnswer>& current);

}  // namespace holdfast::stores::redis
