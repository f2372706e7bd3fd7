// The commands, in one table, and their help pages.
//
// The table is what main() dispatches by, what the front page lists, and what the completions ask
// for (`holdfast help --commands` and `--options`).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

struct Command {
  std::string_view usage;    // "run NAME -- COMMAND [ARG...]": its name, and what follows.
  std::string_view summary;  // For lists, in a few words.
  std::string_view page;     // 'holdfast help NAME'.
  int (*run)(const std::string& name, const std::vector<std::string>& arguments);
  // Has its options read from `--help`, for OptionTable::rows_of(). nullptr: it has none.
  void (*list)(const std::string& name) = nullptr;

  constexpr std::string_view name() const { return usage.substr(0, usage.find(' ')); }
};

// In the order of the front page.
std::span<const Command> all_commands();

// nullptr: there is none.
const Command* find_command(std::string_view name);

// Empty: no such page. "" is the front page; "stores" is a page without a command.
std::string help_text(std::string_view command);

// For completions, to stdout; returns the exit status. `list` is one of
//   --commands  "name:summary"
//   --stores    how URLs begin
//   --options   with tabs between: command, "-w --wait", what it takes (OptionRow), the options
//               that it excludes ("-": none), and what the help page says about it. "--" stands
//               for the command to run. An option that no page explains is left out.
int print_words(const std::string& list);

// To stdout; returns the exit status. An unknown page says so and names the nearest.
int print_help(const std::string& command);

}  // namespace holdfast::cli
