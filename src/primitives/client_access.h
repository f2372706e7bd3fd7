// Makes a client on an existing core. Primitives that use a client's calls need it, and tests that
// put something between core and store.
#pragma once

#include <memory>
#include <utility>

#include "holdfast/client.h"

namespace holdfast::detail {

struct ClientAccess {
  static Client make(std::shared_ptr<session::Core> core) { return Client(std::move(core)); }
};

}  // namespace holdfast::detail
