// The latest possible end of an acquisition.
#pragma once

#include <algorithm>

#include "lab/checker/ledger.h"

namespace holdfast::lab {

// A duration as the slower of two clocks measures it.
constexpr std::int64_t stretched(std::int64_t ns, std::int64_t drift_ppm) {
  return ns + ns / 1'000'000 * drift_ppm + ns % 1'000'000 * drift_ppm / 1'000'000;
}

// The return of an answered release, or the end of the last lease counted from its acknowledgement.
// Unknown for a store whose clock was set.
inline std::int64_t possible_end(const Acquisition& acquisition, std::int64_t drift_ppm) {
  if (acquisition.release_confirmed) return acquisition.release.returned;
  std::int64_t end = 0;
  for (const Extension& extension : acquisition.extensions) {
    const std::int64_t lease = extension.call.returned + stretched(extension.ttl, drift_ppm);
    end = std::max({end, lease, extension.deadline});
  }
  return end;
}

}  // namespace holdfast::lab
