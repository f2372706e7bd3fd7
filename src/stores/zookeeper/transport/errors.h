// Turns the client library's codes into errors for the caller.
#pragma once

#include <string>

#include "holdfast/result.h"

namespace holdfast::stores::zookeeper {

// `written`: a sent request may have changed something. ZOK is not an error.
Error error_of(int rc, bool written, const std::string& what);

}  // namespace holdfast::stores::zookeeper
