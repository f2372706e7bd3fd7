// Decides in one place which layer names the lock in an error, so that each error names it once.
//
// Backends never name it, nor do the parsers of their texts (record.h). The session layer names it
// in errors of an acquisition, renewal, release or downgrade. The engine names it in all other
// errors about one lock, with these functions. (Errors from src/port/outcome.h have it already.)
#pragma once

#include <string>

#include "holdfast/result.h"
#include "src/base/printable.h"

namespace holdfast::contend {

inline std::string of_lock(const std::string& lock) {
  return "lock '" + base::printable(lock) + "': ";
}

inline Error of_lock(const std::string& lock, const Error& why) {
  return {why.code(), of_lock(lock) + why.message()};
}

}  // namespace holdfast::contend
