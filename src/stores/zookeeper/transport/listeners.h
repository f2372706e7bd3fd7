// Checks whether a server listens at all. The ZooKeeper client library does not report this.
#pragma once

#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/url_parts.h"

namespace holdfast::stores::zookeeper {

// Tries to connect to one server after the other, and blocks until `until` at most.
// Errors: kUnavailable: each server refused or has no address; the message names the last one's
// reason.
// Not guaranteed: that a server which accepts the connection is ZooKeeper, or answers.
Result<void> look_for_listeners(const std::vector<port::Endpoint>& servers,
                                base::BootInstant until);

}  // namespace holdfast::stores::zookeeper
