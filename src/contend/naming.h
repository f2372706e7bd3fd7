// Decides in one place who names the lock in an error, so that no error has it twice or not at all.
//
// Backends never do, nor what reads their texts (record.h). What ends an acquisition, a renewal, a
// release or a downgrade is named by the session layer; all else that is asked of one lock by the
// engine, with these. (What src/port/outcome.h makes of an answer is named already.)
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
