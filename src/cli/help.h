// The commands, in one table, and their help pages.
//
// The table is what main() dispatches by, what the front page lists, and what the completions ask
// for (`holdfast help --commands`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

struct Command {
  std::string_view usage;    // "run NAME -- COMMAND [ARG...]": its name, and what follows.
  std::string_view summary;  // For lists, in a few words.
  std::string_view page;     // 'holdfast help NAME'.
  int (*run)(const std::string& name, const std::vector<std::string>& arguments);
  bool begins_group = false;  // On the front page.

  constexpr std::string_view name() const { return usage.substr(0, usage.find(' ')); }
};

// nullptr: there is none.
const Command* find_command(std::string_view name);

// Empty: no such page. "" is the front page; "stores" is a page without a command.
std::string help_text(std::string_view command);

// For completions, one a line. "--commands": "name:summary"; "--stores": how URLs begin.
int print_words(const std::string& list);

// To stdout; returns the exit status. An unknown page says so and names the nearest.
int print_help(const std::string& command);

}  // namespace holdfast::cli
