// The doctors read with this what a server tells of itself.
//
// Thread-safety: pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

// By the name that INFO gives; "config NAME" for a setting.
using Facts = std::map<std::string, std::string, std::less<>>;

// Adds the lines "name:value" of INFO or CLUSTER INFO.
void read_info(std::string_view text, Facts& facts);
// Adds the answer of CONFIG GET.
void read_config(const Reply& reply, Facts& facts);

// Empty if it is unknown.
std::string_view fact(const Facts& facts, std::string_view name);
// The number at the beginning; 0 if there is none.
long number_in(std::string_view text);

// Whether the user lacks the permission, or the server the command.
bool is_refusal(const Error& error);
std::string why_not(const Error& error, const char* command);

}  // namespace holdfast::stores::redis
