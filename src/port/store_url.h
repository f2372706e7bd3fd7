// The URL that names a store, split into its parts.
//
//   scheme:[//authority]path[?key=value&key=value]
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/result.h"

namespace holdfast::port {

struct StoreUrl {
  std::string scheme;          // Lower case.
  std::string authority;       // Undecoded; empty when absent.
  bool has_authority = false;  // "//" stands before it.
  std::string path;  // Percent-decoded; `sqlite:///var/x` has "/var/x", `memory:x` has "x".
  std::vector<std::pair<std::string, std::string>> options;  // Decoded, in order.

  // Errors: kInvalidArgument, with the place and what was expected. No part holds a NUL.
  static Result<StoreUrl> parse(std::string_view text);

  // Takes the option out; what is left when a store has taken all it knows is refused.
  std::optional<std::string> take(std::string_view key);

  // "scheme://host/path": without a log-in and options, to compare two URLs. Not guaranteed: that
  // two names of one server have the same place.
  std::string place() const;

  // Without user, password and secret options: for logs and messages.
  std::string redacted() const;
};

// "%2F" is '/'. Errors: kInvalidArgument; %00 is refused.
Result<std::string> percent_decode(std::string_view text);

// "30s", "1.5s", "250ms", "2m", "1h30m", "500" (ms). Errors: kInvalidArgument.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace holdfast::port
