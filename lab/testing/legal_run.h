// A legal history with a bit of everything, different for every seed: three locks ("jobs"
// exclusive, "tables" shared, "seats" permits), handoffs, tries, busy answers, re-entries,
// renewals, writes, a lease that runs out, a holder that dies, a restart of the store.
#pragma once

#include <cstdint>

#include "lab/history/history.h"

namespace holdfast::lab::testing {

inline constexpr std::uint32_t kJobs = 0;
inline constexpr std::uint32_t kTables = 1;
inline constexpr std::uint32_t kSeats = 2;
inline constexpr std::int64_t kMs = 1'000'000;

History legal_run(std::uint64_t seed);

}  // namespace holdfast::lab::testing
