// The cells of the matrix: for a store, every fault that can be done to it, as scenarios.
//
// Every store has those of its clients' faults; what its topology can do adds others, and so do the
// topology's own cells, which replace what has their name.
#pragma once

#include <string>
#include <vector>

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

// `on` says which store, and the seed. What only root can do is left out for others.
std::vector<Scenario> matrix_cells(const Scenario& on);

// A cell that another store would have, and why there is none on this one.
struct SkippedCell {
  std::string name{};
  std::string why{};
};
std::vector<SkippedCell> skipped_cells(const Scenario& on);

}  // namespace holdfast::lab
