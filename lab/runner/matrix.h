// The cells of the matrix: for a store, every fault that can be done to it, as scenarios.
//
// Every store has the cells with faults of clients. The abilities of its topology add others, and
// so do the topology's own cells, which replace cells of the same name.
#pragma once

#include <string>
#include <vector>

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

// `on` gives the store and the seed. Without root, cells that need it are left out.
std::vector<Scenario> matrix_cells(const Scenario& on);

// A cell that other stores have, and why this store lacks it.
struct SkippedCell {
  std::string name{};
  std::string why{};
};
std::vector<SkippedCell> skipped_cells(const Scenario& on);

}  // namespace holdfast::lab
