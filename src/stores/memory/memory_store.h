// The memory store: the lock machine inside this process.
//
//   memory:        a hub of the client's own
//   memory:NAME    one hub per name in this process, there while any client uses it
//
// Guarantee: what the lock machine guarantees (src/machine/lock_machine.h), among the clients of
// one process. Tokens start at the wall clock in microseconds, and above those of every hub that
// this process had before.
// Not guaranteed: that a watch learns of an expiry at once: the hub acts only when it is called.
// Waiters call at the end of the holder's lease, so the lock itself is never late.
//
// Thread-safety: any thread, renew() too. Each operation runs at once on the caller's thread, under
// the hub's mutex; completions and pushes are posted to the loop in the order of the steps.
// Ownership: clients share their hub.
// Time: host boot time. Blocking: for the mutex, microseconds.
// Errors: src/port/outcome.h; kClosed after close().
// After fork(): the child's hubs are its own, and empty.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/machine/lock_machine.h"
#include "src/machine/types.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/port/store_url.h"

namespace holdfast::stores {

Result<std::unique_ptr<port::Store>> make_memory_store(port::StoreUrl url,
                                                       const port::StoreContext& context);

// --- For tests: time is what `now` says, and the tuning is open.
struct MemoryTuning {
  std::function<machine::Instant()> now;
  machine::Token floor{};
  machine::Limits limits{};
  // How long a released id stays refused. Requests are never late in process: a net.
  machine::Duration tombstone = std::chrono::seconds(1);
};

class InProcessHub;

std::shared_ptr<InProcessHub> make_memory_hub_for_test(MemoryTuning tuning);
std::unique_ptr<port::Store> make_memory_store_for_test(std::shared_ptr<InProcessHub> hub,
                                                        const port::StoreContext& context);

}  // namespace holdfast::stores
