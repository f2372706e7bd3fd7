// Durations as people write them: "30s", "1.5s", "250ms", "2m", "1h30m"; a bare number is seconds.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "holdfast/result.h"

namespace holdfast::cli {

// Rounds up to milliseconds. Errors: kInvalidArgument with a sentence that shows how to write one:
// garbage, negative, a unit twice or out of order, longer than 100 years.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// For people: "250ms", "1.5s", "42s", "2m05s", "3h07m", "5d02h".
std::string format_duration(std::chrono::milliseconds duration);

}  // namespace holdfast::cli
