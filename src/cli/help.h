// The help pages, written by hand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

// All command names, for suggestions.
std::vector<std::string> command_names();

// Empty: no such page. "" is the front page.
std::string help_text(std::string_view command);

// To stdout; returns the exit status. An unknown page says so and names the nearest.
int print_help(const std::string& command);

}  // namespace holdfast::cli
