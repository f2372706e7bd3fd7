// Scenario files (TOML): reading and writing.
//
// Guarantee: read() gives back what write() has written. read() refuses unknown keys and values;
// the error names file, line and key, and says what is allowed there.
// Errors: kInvalidArgument (wrong content), kUnavailable (the file cannot be read).
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

// `file` is used in messages. A topology's file is looked up relative to its folder.
Result<Scenario> read_scenario(const std::string& text, const std::string& file,
                               const OpenTopology& open = read_topology_file);
Result<Scenario> read_scenario_file(const std::string& path);

// Checks a scenario that was changed after reading, by the rules for files.
Result<void> check_again(const Scenario& scenario);

void write_scenario(const Scenario& scenario, std::ostream& out);

// Writes scenario.toml to `folder`, together with a topology of the user's own if there is one, so
// that no other file is needed. Throws std::runtime_error.
void save_scenario(const Scenario& scenario, const std::string& folder);

// Reads at most 1 MiB and one byte. `what` names the file's kind in messages.
Result<std::string> read_text_file(const std::string& path, const std::string& what);

}  // namespace holdfast::lab
