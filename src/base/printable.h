// Text of others in messages: names, owners, reasons.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::base {

// `text` with everything unprintable, and what changes the direction of writing, escaped.
std::string printable(std::string_view text);

}  // namespace holdfast::base
