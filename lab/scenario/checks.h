// Errors of a scenario whose keys are right one by one, and not together.
#pragma once

#include <functional>
#include <string>

#include "lab/scenario/topology.h"

namespace holdfast::lab {

using Complain = std::function<void(const std::string& what)>;

// A scenario, on the topology that it has.
void check_scenario(const Scenario& scenario, const Complain& complain);
// A topology, but for its placeholders and its cells.
void check_topology(const Topology& topology, const Complain& complain);
// A cell of the topology.
void check_cell(const Cell& cell, const Topology& topology, const Complain& complain);

}  // namespace holdfast::lab
