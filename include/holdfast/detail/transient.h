// Which failures pass: the only place that says so.
#pragma once

#include "holdfast/errc.h"

namespace holdfast::detail {

// The store could not be reached, or did not answer in time: the same request may succeed later.
// After kOutcomeUnknown only a request with the same id tells whether the first one was applied.
constexpr bool is_transient(Errc code) {
  return code == Errc::kUnavailable || code == Errc::kOutcomeUnknown;
}

}  // namespace holdfast::detail
