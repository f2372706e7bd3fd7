// The cells of the matrix: for a store, every fault that can be done to it, as scenarios.
#pragma once

#include <string>
#include <vector>

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

// `store`: memory, sqlite, redis, or the URL of a store that is somebody else's. What only root can
// do is left out for others. Empty: no such store.
std::vector<Scenario> matrix_cells(const std::string& store, std::uint64_t seed);

}  // namespace holdfast::lab
