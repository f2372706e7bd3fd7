// The channels that a connection can listen to, by their names.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"

namespace holdfast::server {

// Before the name of a client.
inline constexpr std::string_view kClientChannel = "hf1:@";

// The lock whose changes a channel tells of. nullopt: it is another channel.
std::optional<std::string> lock_of_channel(const std::string& channel);

// Errors: kInvalidArgument: this server has no such channel, or no lock can have the name in it.
Result<void> check_channel(const std::string& channel);

}  // namespace holdfast::server
