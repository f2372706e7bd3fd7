// The placeholders of topology files: {port}, {folder} ... Other braces are left alone, and so is
// what a shell would replace: ${port}.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::lab {

using Values = std::map<std::string, std::string, std::less<>>;

// In the order in which they come.
std::vector<std::string> placeholders(std::string_view text);
// Placeholders without a value stay as they are.
std::string filled(std::string_view text, const Values& values);
std::vector<std::string> filled(const std::vector<std::string>& texts, const Values& values);

}  // namespace holdfast::lab
