// The names of what a store keeps for ids, of segments and of leased workers.
//
// Thread-safety: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "holdfast/result.h"
#include "src/base/random.h"

namespace holdfast::ids {

// Errors: kInvalidArgument.
inline Result<void> check_namespace(const std::string& name) {
  constexpr std::size_t kLongestName = 200;
  const bool plain = std::all_of(name.begin(), name.end(),
                                 [](unsigned char c) { return c > 0x20 && c != 0x7f && c != '/'; });
  const bool dots = name == "." || name == "..";  // No part of a lock's name.
  if (plain && !dots && !name.empty() && name.size() <= kLongestName) return {};
  return Error(Errc::kInvalidArgument,
               "a namespace of ids needs a name of 1 to " + std::to_string(kLongestName) +
                   " bytes, without spaces, control characters and '/', and not '.' or '..'");
}

inline std::string head_key(const std::string& name) { return "ids/" + name; }

inline std::string fresh_incarnation() {
  const base::Random128 random = base::random_128();
  return base::to_hex(random.high, random.low);
}

}  // namespace holdfast::ids
