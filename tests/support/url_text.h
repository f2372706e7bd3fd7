// Texts for the addresses of test servers.
#pragma once

#include <map>
#include <string>

namespace holdfast::support {

std::string percent_encoded(const std::string& text);

// "?name=value&name=value", encoded; empty without entries.
std::string query_text(const std::map<std::string, std::string>& query);

}  // namespace holdfast::support
