// The stores of this build: those that CMakeLists.txt registers, as their manifests say.
#pragma once

#include <string_view>

#include "holdfast/result.h"
#include "src/port/registry.h"

namespace holdfast::client {

// Errors: kInvalidArgument (no such scheme), kUnsupported (known, but not in this build).
Result<port::StoreFactory> find_store(std::string_view scheme);

}  // namespace holdfast::client
