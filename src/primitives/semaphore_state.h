// What a Semaphore and its copies share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/semaphore.h"
#include "src/session/core.h"

namespace holdfast {

struct Semaphore::State {
  const std::shared_ptr<session::Core> core;
  const std::string name;
  std::atomic<std::uint32_t> capacity;

  Mode mode(std::uint32_t permits) const { return Mode::permits(permits, capacity); }
};

}  // namespace holdfast
