// Whether a server listens at all, which the ZooKeeper client library does not tell.
#pragma once

#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/url_parts.h"

namespace holdfast::stores::zookeeper {

// Tries to connect to one server after the other, and blocks for that until `until` at most.
// Errors: kUnavailable: each of them refused, or has no address; it says why of the last one.
// Not guaranteed: that one which lets us connect is ZooKeeper, or answers.
Result<void> look_for_listeners(const std::vector<port::Endpoint>& servers,
                                base::BootInstant until);

}  // namespace holdfast::stores::zookeeper
