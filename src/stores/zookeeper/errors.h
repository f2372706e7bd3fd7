// The meaning of the client library's codes for a caller.
#pragma once

#include <string>

#include "holdfast/result.h"

namespace holdfast::stores::zookeeper {

// `written`: the request may have changed something, if it was sent. ZOK is no error.
Error error_of(int rc, bool written, const std::string& what);

}  // namespace holdfast::stores::zookeeper
