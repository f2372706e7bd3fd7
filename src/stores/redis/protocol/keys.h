// Where a lock lives on the server: its name to its keys, and back.
//
//   hf1:{<name>}     the lock's record; hf1:{<name>}:t and so on stand beside it (scripts/lock.lua)
//   hf1:@<client>    the channel on which a client hears of its grants
//   hf1:{<name>}:v   the value beside the lock, and the channel on which its changes are told
//
// Guarantee: injective; all keys of a lock have the same braces and so lie in one cluster slot. In
// a name `%`, `{`, `}` are written %25, %7B, %7D.
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::stores::redis {

std::string record_key(std::string_view name);
// As a word of a request.
void append_record_key(std::string& wire, std::string_view name);
std::string value_key(std::string_view name);
// The command that reads the value, as it is sent.
std::string read_of(std::string_view name);
std::string channel_of(std::string_view client);

// nullopt if this is not the key of a record.
std::optional<std::string> name_of_key(std::string_view key);

// A glob for SCAN that the records of all names with this prefix match.
std::string record_pattern(std::string_view prefix);

}  // namespace holdfast::stores::redis
