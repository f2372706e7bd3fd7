// The state that a handle of a lock and its copies share.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "holdfast/mutex.h"
#include "holdfast/shared_mutex.h"
#include "src/primitives/thread_leases.h"
#include "src/session/core.h"

namespace holdfast {

namespace primitives {

struct LockState {
  LockState(std::shared_ptr<session::Core> shared_core, std::string lock_name,
            AcquireOptions options)
      : core(std::move(shared_core)), name(std::move(lock_name)), defaults(std::move(options)) {}

  const std::shared_ptr<session::Core> core;
  const std::string name;
  const AcquireOptions defaults;
  ThreadLeases threads;
};

}  // namespace primitives

struct Mutex::State : primitives::LockState {
  using LockState::LockState;
};

struct SharedMutex::State : primitives::LockState {
  using LockState::LockState;
};

}  // namespace holdfast
