// See holdfast/guarantees.h.
#pragma once

#include "holdfast/guarantees.h"
#include "src/stores/redlock/url.h"

namespace holdfast::stores::redlock {

Guarantees guarantees(std::chrono::milliseconds longest_ttl = std::chrono::seconds(60),
                      bool tokens = true);

}  // namespace holdfast::stores::redlock
