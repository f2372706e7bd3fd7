// The leases that threads took through lock() and its kin: the standard says that unlock() comes
// from the thread that locked. Reentrancy never hangs on this.
//
// Thread-safety: safe. A forked child must not call it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "holdfast/lease.h"
#include "holdfast/options.h"
#include "src/base/local_mutex.h"

namespace holdfast::primitives {

class ThreadLeases {
 public:
  using Take = std::function<Result<Lease>(AcquireOptions)>;

  // For this thread, with `take`. False: not within `wait`. Throws std::system_error where it
  // cannot answer. `forked`: `take` tells what there is to tell.
  bool lock(const std::string& name, AcquireOptions defaults, std::chrono::milliseconds wait,
            bool forked, const Take& take);
  // The leases of this thread, taken out.
  std::optional<Lease> unlock();
  Lease* find();  // nullptr: none.

 private:
  base::LocalMutex mutex_;
  std::map<std::uint64_t, Lease> by_thread_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::primitives
