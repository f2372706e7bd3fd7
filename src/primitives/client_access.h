// A client on a core that is there already: for primitives made of the calls of a client, and for
// tests that put something between core and store.
#pragma once

#include <memory>
#include <utility>

#include "holdfast/client.h"

namespace holdfast::detail {

struct ClientAccess {
  static Client make(std::shared_ptr<session::Core> core) { return Client(std::move(core)); }
};

}  // namespace holdfast::detail
