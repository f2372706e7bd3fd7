// What a single Redis server gives under which fault, as data.
#pragma once

#include "holdfast/guarantees.h"

namespace holdfast::stores::redis {

Guarantees guarantees();

}  // namespace holdfast::stores::redis
