// Makes text of unknown origin fit for a page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::lab {

// Replaces invalid UTF-8, control characters and characters that XML does not allow by "?".
std::string valid_utf8(std::string_view text);

// Shortens to at most `most` characters; a shortened text ends with an ellipsis.
std::string shortened(std::string_view text, std::size_t most);

// Breaks a text into lines of at most `columns` characters, at spaces if possible.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

}  // namespace holdfast::lab
