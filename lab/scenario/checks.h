// Finds errors of a scenario whose keys are right one by one but not together.
#pragma once

#include <functional>
#include <string>

#include "lab/scenario/topology.h"

namespace holdfast::lab {

using Complain = std::function<void(const std::string& what)>;

// Checks a scenario on its topology.
void check_scenario(const Scenario& scenario, const Complain& complain);
// Checks a topology, except its placeholders and its cells.
void check_topology(const Topology& topology, const Complain& complain);
// Checks a cell of the topology.
void check_cell(const Cell& cell, const Topology& topology, const Complain& complain);

}  // namespace holdfast::lab
