// This judges the answers of a lock service's servers together: which shards nobody serves, what
// keeps a server from granting locks, and whether all are of one service.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "holdfast/stores.h"

namespace holdfast::cli {

// The role of a server that tells nothing.
const char* silence_word(bool refused);

// The server that leads each of several shards; empty: not known.
std::vector<std::string> shard_leaders(const ServerStatus& server);

// Whether the service has them, as those of its servers tell that answer.
bool has_several_shards(const std::vector<ServerStatus>& servers);

// Whether this server, which answers, does what its shards' clients need.
bool serves(const ServerStatus& server);
// Whether its journal takes no grants, while reads and renewals go on.
bool grants_nothing(const ServerStatus& server);
// One line about a journal that takes no grants, or soon will not; else empty.
std::string journal_note(const ServerStatus& server);

// These shards are served by none of these servers, and why. Empty if none of them answers.
using Vacant = std::map<std::uint32_t, std::string>;
Vacant vacant_shards(const std::vector<ServerStatus>& servers);
// One line for each reason.
std::string sentences(const Vacant& vacant, const std::vector<ServerStatus>& servers);

// "0-3, 6" of numbers in their order.
std::string ranges(const std::vector<std::uint32_t>& numbers);
// "shard 2", "shards 0-3, 6"; empty of none.
std::string shards_text(const std::vector<std::uint32_t>& shards);

// One line about two of these servers that are of different services; empty: none are. Each client
// uses the one that it reaches, so two of them hold the same lock.
std::string strangers(const std::vector<ServerStatus>& servers);

}  // namespace holdfast::cli
