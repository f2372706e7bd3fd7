// What a Mutex and its copies share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "holdfast/mutex.h"
#include "src/base/local_mutex.h"
#include "src/session/core.h"

namespace holdfast {

struct Mutex::State {
  State(std::shared_ptr<session::Core> shared_core, std::string lock_name, AcquireOptions options)
      : core(std::move(shared_core)), name(std::move(lock_name)), defaults(std::move(options)) {}

  const std::shared_ptr<session::Core> core;
  const std::string name;
  const AcquireOptions defaults;

  // Leases taken by lock() and its kin, by thread: the standard says that unlock() comes from the
  // thread that locked. Reentrancy never hangs on this.
  base::LocalMutex mutex;
  std::map<std::uint64_t, Lease> by_thread HOLDFAST_GUARDED_BY(mutex);
};

}  // namespace holdfast
