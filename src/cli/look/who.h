// How owners are shown.
//
// Another program on a lock that both use (?recipe= in the URL) tells less of itself. Unknown facts
// are "-", and null in JSON, never the year 1970.
//
// Guarantee: all text of other processes is made safe for a terminal. Not guaranteed: that what
// they say of themselves is true. Thread-safety: pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "holdfast/lock_info.h"

namespace holdfast::cli {

inline bool knows_since(const OwnerInfo& who) {
  return who.since != std::chrono::system_clock::time_point{};
}
// The rest of its lease. nullopt: not known. Zero: an owner that does not even tell since when it
// holds.
std::optional<std::chrono::milliseconds> left_of(const OwnerInfo& who,
                                                 std::chrono::milliseconds time_left);

std::string who_text(const OwnerInfo& who);  // The program, or else the owner's id.
std::string host_text(const OwnerInfo& who);
std::string pid_text(const OwnerInfo& who);
std::string since_text(const OwnerInfo& who);
std::string left_text(const HolderInfo& holder);
std::string token_text(const Token& token);  // All digits, as everywhere; "-": none is known.

// "make on build-7 (pid 4711)", as far as it is known; `more` stands behind the pid.
std::string sentence_of(const OwnerInfo& who, const std::string& more = {});

}  // namespace holdfast::cli
