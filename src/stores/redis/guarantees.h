// The guarantees of a single Redis server under each fault, as data.
#pragma once

#include "holdfast/guarantees.h"

namespace holdfast::stores::redis {

Guarantees guarantees();

}  // namespace holdfast::stores::redis
