// Topology files (TOML): reading, and those that come with the lab.
//
// Guarantee: read_topology() takes nothing that it does not know: the error names file, line and
// key, and says what may stand there. Nothing in a file is run or looked up by reading it.
// Thread-safety: safe.
// Errors: kInvalidArgument (what is wrong with it), kUnavailable (it cannot be read).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/result.h"

#include "lab/scenario/topology.h"

namespace holdfast::lab {

using TopologyPointer = std::shared_ptr<const Topology>;

// `file` is for the messages.
Result<TopologyPointer> read_topology(const std::string& text, const std::string& file);
Result<TopologyPointer> read_topology_file(const std::string& path);

// The names of lab/topologies, sorted.
const std::vector<std::string>& shipped_topologies();
// Null: none of that name.
TopologyPointer shipped_topology(const std::string& name);

// The values of `kind` in [store]: those, url, and none.
std::vector<std::string> store_kinds();

// A scenario that names nothing but its store: `store` is the name of a shipped topology, or the
// URL of a store that is somebody else's.
Result<Scenario> scenario_on(const std::string& store);

}  // namespace holdfast::lab
