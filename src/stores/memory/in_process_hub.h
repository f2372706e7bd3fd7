// Shared by the clients of one memory store: the machine, its mutex, and the clients to notify.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "holdfast/lock_info.h"
#include "holdfast/result.h"
#include "src/base/local_mutex.h"
#include "src/machine/effect.h"
#include "src/machine/lock_machine.h"
#include "src/port/store.h"
#include "src/stores/memory/memory_store.h"

namespace holdfast::stores {

// The way to one client. Tasks in progress keep it beyond the store's life, and find it closed.
struct Mailbox {
  port::Loop* loop = nullptr;
  port::Listener* listener = nullptr;
  std::atomic<bool> closed{false};
};
using MailboxPtr = std::shared_ptr<Mailbox>;

class InProcessHub : public std::enable_shared_from_this<InProcessHub> {
 public:
  explicit InProcessHub(MemoryTuning tuning);
  InProcessHub(const InProcessHub&) = delete;
  InProcessHub& operator=(const InProcessHub&) = delete;

  // Each runs one step, posts what it means for others, and then calls `then` with the answer while
  // the step is still the last one: what is posted there keeps the order of the steps.
  template <typename T>
  using Then = std::function<void(Result<T>)>;

  Result<port::AcquisitionState> acquire(const MailboxPtr& from,
                                         const port::AcquireRequest& request,
                                         const Then<port::AcquisitionState>& then = {});
  Result<port::Store::Grants> try_acquire_all(const MailboxPtr& from,
                                              const std::vector<port::AcquireRequest>& requests,
                                              const Then<port::Store::Grants>& then = {});
  std::vector<Result<port::EndStatus>> release_all(
      const std::vector<port::AcquisitionRequest>& requests,
      const Then<std::vector<Result<port::EndStatus>>>& then = {});
  void renew(const MailboxPtr& from, const std::vector<port::RenewItem>& items,
             const Then<std::vector<Result<port::AcquisitionState>>>& then);
  Result<port::EndStatus> release(const port::AcquisitionRequest& request,
                                  const Then<port::EndStatus>& then = {});
  Result<port::EndStatus> cancel(const port::AcquisitionRequest& request,
                                 const Then<port::EndStatus>& then = {});
  void downgrade(const port::AcquisitionRequest& request, const Then<port::AcquisitionState>& then);
  void inspect(const std::string& name, const Then<std::optional<LockInfo>>& then);
  void list(const std::string& prefix, std::size_t limit, const Then<std::vector<LockInfo>>& then);
  void break_lock(const port::BreakRequest& request, const Then<bool>& then);
  void set_value(const port::AcquisitionRequest& holder, std::string value, const Then<bool>& then);
  void keep(const port::KeepRequest& request, const Then<bool>& then);
  void get_value(const std::string& name, const Then<std::string>& then);
  void resize(const port::AcquisitionRequest& request, std::uint32_t capacity,
              const Then<bool>& then);
  port::WatchHandle watch(const MailboxPtr& from, std::string prefix, port::EventSink sink);
  port::WatchHandle watch_value(const MailboxPtr& from, std::string name, port::Task changed);

  // From here on the mailbox is not used by the hub any more. Its tickets run out by their leases.
  void leave(const MailboxPtr& mailbox);

  // Everything, for tests that compare it with a model.
  machine::MachineImage snapshot();

 private:
  struct Watcher {
    MailboxPtr mailbox;
    std::string prefix;
    port::EventSink sink;
    std::atomic<bool> ended{false};
  };
  struct ValueWatcher {
    MailboxPtr mailbox;
    port::Task changed;
    std::atomic<bool> ended{false};
  };
  struct IdHash {
    std::size_t operator()(const port::AcquisitionId& id) const {
      return static_cast<std::size_t>(id.low ^ (id.high * 0x9E37'79B9'7F4A'7C15U));
    }
  };

  machine::Reply step(machine::Action action, const port::AcquisitionId& own)
      HOLDFAST_REQUIRES(mutex_);
  machine::Reply step_at(machine::Instant at, machine::Action action,
                         const port::AcquisitionId& own) HOLDFAST_REQUIRES(mutex_);
  Result<port::Store::Grants> take_all(const MailboxPtr& from,
                                       const std::vector<port::AcquireRequest>& requests)
      HOLDFAST_REQUIRES(mutex_);
  void deliver(const machine::Effect& effect, const port::AcquisitionId& own)
      HOLDFAST_REQUIRES(mutex_);
  void push(const machine::Effect& effect) HOLDFAST_REQUIRES(mutex_);
  void tell_watchers(const machine::Effect& effect) HOLDFAST_REQUIRES(mutex_);
  void tell_value_watchers(const machine::Effect& effect) HOLDFAST_REQUIRES(mutex_);
  void leave_trace(const std::string& name, BreakInfo trace) HOLDFAST_REQUIRES(mutex_);
  Result<port::EndStatus> end(machine::Action action, const port::AcquisitionRequest& request,
                              const Then<port::EndStatus>& then);
  Result<port::AcquisitionState> renewed(const machine::Reply& reply,
                                         const port::RenewItem& item) const
      HOLDFAST_REQUIRES(mutex_);
  std::optional<LockInfo> look(const std::string& name) HOLDFAST_REQUIRES(mutex_);
  void end_watch(const Watcher* watcher);
  void end_value_watch(const ValueWatcher* watcher);

  const MemoryTuning tuning_;
  base::LocalMutex mutex_;
  machine::LockMachine machine_ HOLDFAST_GUARDED_BY(mutex_);
  machine::Effects effects_ HOLDFAST_GUARDED_BY(mutex_);
  machine::Token last_token_ HOLDFAST_GUARDED_BY(mutex_){};
  // The client that asked for the ticket (or renewed it last, for one that was taken over), while
  // it stands.
  std::unordered_map<port::AcquisitionId, MailboxPtr, IdHash> routes_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Watcher>> watchers_ HOLDFAST_GUARDED_BY(mutex_);
  std::multimap<std::string, std::shared_ptr<ValueWatcher>, std::less<>> value_watchers_
      HOLDFAST_GUARDED_BY(mutex_);
  // The last break of each name, the oldest dropped beyond a bound.
  std::map<std::string, std::pair<std::uint64_t, BreakInfo>> traces_ HOLDFAST_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::string> traces_by_age_ HOLDFAST_GUARDED_BY(mutex_);
  std::uint64_t next_trace_ HOLDFAST_GUARDED_BY(mutex_) = 0;
};

// The hub of that name in this process; an empty name makes one that nobody else can find.
std::shared_ptr<InProcessHub> find_or_make_memory_hub(const std::string& name);

}  // namespace holdfast::stores
