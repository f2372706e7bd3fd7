// Scenario files (TOML): reading and writing.
//
// Guarantee: what write() has written, read() gives back equal. read() takes nothing that it does
// not know: the error names file, line and key, and says what may stand there.
// Errors: kInvalidArgument (what is wrong with it), kUnavailable (it cannot be read).
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "holdfast/result.h"

#include "lab/scenario/scenario.h"
#include "lab/scenario/topology_files.h"

namespace holdfast::lab {

// The file of a topology that a scenario names.
using OpenTopology = std::function<Result<TopologyPointer>(const std::string& path)>;

// `file` is for the messages, and a topology's file is looked for from its folder.
Result<Scenario> read_scenario(const std::string& text, const std::string& file,
                               const OpenTopology& open = read_topology_file);
Result<Scenario> read_scenario_file(const std::string& path);

// A key that a file must not set must not be set otherwise either: for one that was changed since.
Result<void> check_again(const Scenario& scenario);

void write_scenario(const Scenario& scenario, std::ostream& out);

// scenario.toml in `folder`, which needs no other file: with a topology of the user's own it is
// written beside it. Throws std::runtime_error.
void save_scenario(const Scenario& scenario, const std::string& folder);

// At most 1 MiB and a byte of it; `what` it should be is for the messages.
Result<std::string> read_text_file(const std::string& path, const std::string& what);

}  // namespace holdfast::lab
