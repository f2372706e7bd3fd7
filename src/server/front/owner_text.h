// Owners as the clients' JSON texts, as src/stores/redis/protocol/owner_json.h writes them.
//
// Guarantee: text that cannot be read gives an owner without facts, never an error. Texts of more
// than 2 KiB are cut.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/machine/types.h"
#include "src/server/requests.h"

namespace holdfast::server {

machine::OwnerPtr read_owner(std::string_view json);
std::string write_owner(const machine::OwnerPtr& owner);

// {"token":"17","by":{...}}: who ended the grant of that token.
machine::OwnerPtr read_breaker(std::string_view json);
std::string write_trace(const BreakTrace& trace);

}  // namespace holdfast::server
