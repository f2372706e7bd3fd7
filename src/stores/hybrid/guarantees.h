// The guarantees of a hybrid store, as data: its arbiter's, less what the filter cannot keep.
#pragma once

#include "holdfast/guarantees.h"

namespace holdfast::stores::hybrid {

Guarantees guarantees(Guarantees arbiter);

}  // namespace holdfast::stores::hybrid
