// Scenario files (TOML): reading and writing.
//
// Guarantee: what write() has written, read() gives back equal. read() takes nothing that it does
// not know: the error names file, line and key, and says what may stand there.
// Errors: kInvalidArgument (what is wrong with it), kUnavailable (it cannot be read).
#pragma once

#include <iosfwd>
#include <string>

#include "holdfast/result.h"

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

// `file` is for the messages.
Result<Scenario> read_scenario(const std::string& text, const std::string& file);
Result<Scenario> read_scenario_file(const std::string& path);

void write_scenario(const Scenario& scenario, std::ostream& out);

}  // namespace holdfast::lab
