// Topology files (TOML): reading, and those that come with the lab.
//
// Guarantee: read_topology() refuses unknown keys and values; the error names file, line and key,
// and says what is allowed there. Reading runs or looks up nothing of a file.
// Thread-safety: safe.
// Errors: kInvalidArgument (wrong content), kUnavailable (the file cannot be read).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/result.h"

#include "lab/scenario/topology.h"

namespace holdfast::lab {

using TopologyPointer = std::shared_ptr<const Topology>;

// `file` is used in messages.
Result<TopologyPointer> read_topology(const std::string& text, const std::string& file);
Result<TopologyPointer> read_topology_file(const std::string& path);

// The names of lab/topologies, sorted.
const std::vector<std::string>& shipped_topologies();
// Null if there is none of that name.
TopologyPointer shipped_topology(const std::string& name);

// The values of `kind` in [store]: the shipped topologies, url, and none.
std::vector<std::string> store_kinds();

// A scenario that only names its store: a shipped topology, or the URL of a user's store.
Result<Scenario> scenario_on(const std::string& store);

}  // namespace holdfast::lab
