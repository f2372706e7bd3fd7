// The guarantees of locks on memcached, as data: docs/stores/memcached.md has them in words.
#pragma once

#include "holdfast/guarantees.h"

namespace holdfast::stores::memcached {

Guarantees guarantees();

}  // namespace holdfast::stores::memcached
