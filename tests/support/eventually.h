// Looks again and again, for what has no event that could be awaited. Seldom enough for what each
// look asks of a server.
#pragma once

#include <chrono>
#include <thread>

#include "src/base/clock.h"

namespace holdfast::support {

// False: it was not so within `limit`. On the boot clock; a look may take longer.
template <typename Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds(60)) {
  const auto until = base::BootClock::now() + limit;
  while (!condition()) {
    if (base::BootClock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace holdfast::support
