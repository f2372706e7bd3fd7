// The guarantees of each way to run Redis under each fault, as data.
#pragma once

#include "holdfast/guarantees.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

Guarantees guarantees(const RedisAddress& address = {});

}  // namespace holdfast::stores::redis
