// Options of this program, on the option table of `holdfast`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "src/cli/options/option_table.h"

#include "lab/program/commands.h"

namespace holdfast::lab {

// A command's option table. Add all options, then call `parse_options(table, ...)`.
inline cli::OptionTable options_of(const std::string& command) {
  return cli::OptionTable(command, "holdfast-lab");
}
// Returns the exit status after it printed help or an error; nullopt to continue.
std::optional<int> parse_options(cli::OptionTable& table, const std::string& command,
                                 const Arguments& arguments);

// A whole number from 0 on, up to 2^63 - 1.
Result<std::uint64_t> read_whole(const std::string& text);
// The same from 1 to `most`.
std::function<Result<std::uint64_t>(const std::string&)> from_one_to(std::uint64_t most);

}  // namespace holdfast::lab
