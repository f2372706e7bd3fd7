// The placeholders of topology files: {port}, {folder} ... Other braces stay as they are, and so do
// a shell's variables: ${port}.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::lab {

using Values = std::map<std::string, std::string, std::less<>>;

// The names in their order.
std::vector<std::string> placeholders(std::string_view text);
// Placeholders without a value stay as they are.
std::string filled(std::string_view text, const Values& values);
std::vector<std::string> filled(const std::vector<std::string>& texts, const Values& values);

}  // namespace holdfast::lab
