#include "src/stores/memory/memory_store.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <utility>

#include "src/base/abandon.h"
#include "src/base/local_mutex.h"
#include "src/port/records_job.h"
#include "src/port/url_options.h"
#include "src/stores/memory/in_process_hub.h"
#include "src/stores/memory/records.h"

namespace holdfast::stores {
namespace {

using port::AcquisitionState;
using port::Done;
using port::EndStatus;

Error closed_error() { return {Errc::kClosed, "the memory store was closed"}; }

Guarantees memory_guarantees() {
  Guarantees promise;
  promise.store = "memory";
  promise.scope = "one process";
  promise.fenced = promise.fair = promise.shared = promise.permits = true;
  promise.upgrade = promise.list = promise.values = true;
  promise.multi = true;
  promise.watch_every_change = true;
  promise.survives_restart = promise.survives_failover = false;
  promise.min_ttl = std::chrono::milliseconds(1);
  promise.max_ttl = std::chrono::hours(24);
  promise.faults = {
      {"thread of the holder stalls or ends", Guarantee::kYes, Guarantee::kYes,
       "its lease ends on boot time; a thread that wakes later is refused by its token"},
      {"wall clock jumps", Guarantee::kYes, Guarantee::kYes, "leases do not use it"},
      {"host is suspended", Guarantee::kYes, Guarantee::kYes, "boot time counts it"},
      {"process ends and starts again", Guarantee::kYes, Guarantee::kDeclared,
       "nothing is held any more; tokens begin at the wall clock in microseconds, so they grow "
       "unless the clock was set back meanwhile"},
      {"another process wants the lock", Guarantee::kNo, Guarantee::kNo,
       "it has a memory of its own: use sqlite on one host"},
  };
  return promise;
}

class MemoryStore final : public port::Store {
 public:
  MemoryStore(std::shared_ptr<InProcessHub> hub, const port::StoreContext& context)
      : loop_(context.loop), hub_(std::move(hub)), mailbox_(std::make_shared<Mailbox>()) {
    mailbox_->loop = context.loop;
    mailbox_->listener = context.listener;
  }

  ~MemoryStore() override {
    if (hub_) hub_->leave(mailbox_);
  }

  Guarantees guarantees() const override { return memory_guarantees(); }

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    if (refuse(done)) return;
    static_cast<void>(hub_->acquire(mailbox_, request, to_loop(std::move(done))));
  }

  void renew(std::vector<port::RenewItem> items, base::BootInstant,
             Done<std::vector<Result<AcquisitionState>>> done) override {
    if (refuse(done)) return;
    hub_->renew(mailbox_, items, to_loop(std::move(done)));
  }

  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    if (refuse(done)) return;
    static_cast<void>(hub_->release(request, to_loop(std::move(done))));
  }

  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    if (refuse(done)) return;
    static_cast<void>(hub_->cancel(request, to_loop(std::move(done))));
  }

  void try_acquire_all(std::vector<port::AcquireRequest> requests, Done<Grants> done) override {
    if (refuse(done)) return;
    static_cast<void>(hub_->try_acquire_all(mailbox_, requests, to_loop(std::move(done))));
  }

  void release_all(std::vector<port::AcquisitionRequest> requests,
                   Done<std::vector<Result<EndStatus>>> done) override {
    if (refuse(done)) return;
    static_cast<void>(hub_->release_all(requests, to_loop(std::move(done))));
  }

  void downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) override {
    if (refuse(done)) return;
    hub_->downgrade(request, to_loop(std::move(done)));
  }

  void inspect(std::string name, base::BootInstant, Done<std::optional<LockInfo>> done) override {
    if (refuse(done)) return;
    hub_->inspect(name, to_loop(std::move(done)));
  }

  void list(std::string prefix, std::size_t limit, base::BootInstant,
            Done<std::vector<LockInfo>> done) override {
    if (refuse(done)) return;
    hub_->list(prefix, limit, to_loop(std::move(done)));
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    if (refuse(done)) return;
    hub_->break_lock(request, to_loop(std::move(done)));
  }

  void watch(std::string prefix, port::EventSink sink, base::BootInstant,
             Done<port::WatchHandle> done) override {
    if (refuse(done)) return;
    to_loop(std::move(done))(hub_->watch(mailbox_, std::move(prefix), std::move(sink)));
  }

  void probe(base::BootInstant, Done<std::vector<Finding>> done) override {
    if (refuse(done)) return;
    to_loop(std::move(done))(std::vector<Finding>{
        {Severity::kOk, "scope", "locks live in this process and end with it", ""}});
  }

  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    if (refuse(done)) return;
    hub_->set_value(holder, std::move(value), to_loop(std::move(done)));
  }

  void keep(port::KeepRequest request, Done<bool> done) override {
    if (refuse(done)) return;
    hub_->keep(request, to_loop(std::move(done)));
  }

  void get_value(std::string name, base::BootInstant, Done<std::string> done) override {
    if (refuse(done)) return;
    hub_->get_value(name, to_loop(std::move(done)));
  }

  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    if (mailbox_->closed) return {};
    return hub_->watch_value(mailbox_, std::move(name), std::move(changed));
  }

  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    if (refuse(done)) return;
    hub_->resize(request, capacity, to_loop(std::move(done)));
  }

  std::optional<Result<AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override {
    if (mailbox_->closed) return Result<AcquisitionState>(closed_error());
    return hub_->acquire(mailbox_, request);
  }

  std::optional<Result<EndStatus>> release_inline(
      const port::AcquisitionRequest& request) override {
    if (mailbox_->closed) return Result<EndStatus>(closed_error());
    return hub_->release(request);
  }

  std::optional<Result<Grants>> try_acquire_all_inline(
      const std::vector<port::AcquireRequest>& requests) override {
    if (mailbox_->closed) return Result<Grants>(closed_error());
    return hub_->try_acquire_all(mailbox_, requests);
  }

  std::optional<Result<std::vector<Result<EndStatus>>>> release_all_inline(
      const std::vector<port::AcquisitionRequest>& requests) override {
    if (mailbox_->closed) return Result<std::vector<Result<EndStatus>>>(closed_error());
    return hub_->release_all(requests);
  }

  bool answers_at_once() const override { return true; }

  // Every operation has run already; what may still be under way is its completion.
  void close(base::BootInstant deadline) override {
    if (mailbox_->closed) return;
    hub_->leave(mailbox_);
    struct Passed {
      base::LocalMutex mutex;
      base::LocalCondition condition;
      bool is = false;
    };
    auto passed = std::make_shared<Passed>();
    loop_->post([passed] {
      const base::LocalLock lock(passed->mutex);
      passed->is = true;
      passed->condition.notify_all();
    });
    const base::LocalLock lock(passed->mutex);
    for (auto now = base::BootClock::now(); !passed->is && now < deadline;
         now = base::BootClock::now()) {
      passed->condition.wait_for(passed->mutex, deadline - now);
    }
  }

  // The hub's mutex may be another thread's of the parent, for ever: neither use nor destroy it.
  void abandon_after_fork() noexcept override {
    mailbox_->closed = true;
    base::abandon(std::move(hub_));
    hub_.reset();
  }

 private:
  template <typename T>
  bool refuse(Done<T>& done) {
    if (!mailbox_->closed) return false;
    loop_->post([done = std::move(done)] { done(closed_error()); });
    return true;
  }

  template <typename T>
  std::function<void(Result<T>)> to_loop(Done<T> done) {
    return [loop = loop_, done = std::move(done)](Result<T> result) mutable {
      loop->post([done = std::move(done), result = std::move(result)]() mutable {
        done(std::move(result));
      });
    };
  }

  port::Loop* const loop_;
  std::shared_ptr<InProcessHub> hub_;
  const MailboxPtr mailbox_;
};

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is that of all stores.
Result<std::unique_ptr<port::Store>> make_memory_store(port::StoreUrl url,
                                                       const port::StoreContext& context) {
  if (!url.authority.empty()) {
    return Error(Errc::kInvalidArgument,
                 "memory store: write memory: or memory:NAME, without '//' before the name");
  }
  if (auto known = port::reject_unknown_options(url, "memory"); !known) return known.error();
  if (context.records != nullptr) {
    return port::answer(*context.records, make_memory_records(url.path));
  }
  return make_memory_store_for_test(find_or_make_memory_hub(url.path), context);
}

std::unique_ptr<port::Store> make_memory_store_for_test(std::shared_ptr<InProcessHub> hub,
                                                        const port::StoreContext& context) {
  return std::make_unique<MemoryStore>(std::move(hub), context);
}

}  // namespace holdfast::stores
