// The guarantees of the PostgreSQL store, under each fault.
#pragma once

#include "holdfast/guarantees.h"

namespace holdfast::stores::postgres {

Guarantees guarantees();

}  // namespace holdfast::stores::postgres
