// Text of unknown origin, made fit for a page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::lab {

// Text that is no UTF-8, a control character, or one that XML does not know, becomes "?".
std::string valid_utf8(std::string_view text);

// At most `most` characters of it, the last an ellipsis where some are missing.
std::string shortened(std::string_view text, std::size_t most);

// Lines of at most `columns` characters, broken at spaces where there are any.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

}  // namespace holdfast::lab
