// Which lock names are allowed.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/result.h"

namespace holdfast::session {

// UTF-8, 1 to 256 bytes, no control characters, no `..` segment. Errors: kInvalidArgument, with
// what is wrong and at which byte.
Result<void> check_name(std::string_view name);

// `text` with everything unprintable, and what changes the direction of writing, escaped: for
// messages.
std::string printable(std::string_view text);

}  // namespace holdfast::session
