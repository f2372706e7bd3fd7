// The shapes of --json. Golden files in tests/cli/golden keep them; fields are added, never
// renamed. Tokens are strings: they do not fit the numbers of most JSON readers.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "holdfast/guarantees.h"
#include "holdfast/lock_info.h"
#include "src/cli/options/options.h"

namespace holdfast::cli {

using Json = nlohmann::ordered_json;
struct Finished;  // outcomes.h

// One line; bytes that are not UTF-8 are replaced.
std::string to_line(const Json& value);

// Prints what a command did: as `json` with --json, otherwise as `text`, except with -q. Returns
// the exit status.
int answer(const CommonOptions& common, const Json& json, const std::string& text);

// "exclusive", "shared", "permits 1/3"
std::string mode_text(const Mode& mode);

// The first holder's fields are repeated at the top, so that `jq .owner` answers for a mutex.
Json to_json(const LockInfo& info);
// With its outcome, of a finished Once.
Json to_json(const Finished& once);
// Describes a lock that nobody knows.
Json free_lock_json(const std::string& name);
Json to_json(const LockEvent& event);
Json to_json(const DoctorReport& report);

// "yes", "declared", "no"
std::string guarantee_word(Guarantee given);
// "granted", "queued" ...
std::string event_word(LockEventKind kind);

}  // namespace holdfast::cli
