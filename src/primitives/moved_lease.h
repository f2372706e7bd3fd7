// The answers of a lease whose content has been moved to another object.
#pragma once

#include "holdfast/errc.h"

namespace holdfast::primitives {

inline Error moved_lease_error() {
  return {Errc::kInvalidArgument, "this lease has been moved to another object, which may hold it"};
}

}  // namespace holdfast::primitives
