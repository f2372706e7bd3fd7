// The ground of every layer of the core: the mutex, the threads, the store, calls under way, and
// questions to the store.
//
// The core is built in layers, each a class that knows the ones below it only:
//
//   Core         the client's: leases by id, several at once, values, sleepers, close()
//   Acquiring    from a request to a lease
//   Releasing    from a lease to its end
//   Renewing      a lease while it lasts: deadlines, renewals, the news of a loss
//   CoreBase     this
//
// They are bases of one object because they share one mutex, which clang's analysis then follows
// through all of them (docs/design/0040-layers-of-the-core.md). A layer reaches one above it by a
// virtual function of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/options.h"
#include "holdfast/result.h"
#include "src/base/local_mutex.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/session/acquisition.h"
#include "src/session/loop/event_loop.h"
#include "src/session/reports/reports.h"
#include "src/session/worker.h"

namespace holdfast::session {

struct CoreOptions {
  std::string store_url;   // Redacted: for messages.
  std::string name_space;  // Put before every name, with a '/'.
  ClientOptions client;
  bool url_has_ttl = false;             // client.default_ttl is the URL's.
  bool outlasts_first = false;          // See AcquireFsm::Terms.
  port::SchemaJob* schema = nullptr;    // For make(), instead of a store.
  port::ChainJob* chain = nullptr;      // The same.
  port::ServersJob* servers = nullptr;  // The same.
  Result<port::StoreFactory> (*find_store)(std::string_view scheme) = nullptr;
};

class CoreBase {
 public:
  using AcquisitionPtr = std::shared_ptr<Acquisition>;
  using Wait = Acquisition::Wait;
  using WaitPtr = std::shared_ptr<Wait>;
  // An asynchronous call's answer: called once, without the core's mutex, on any thread, also on
  // the caller's before the call returns. It must neither block nor throw, nor run code of the
  // user.
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  CoreBase(const CoreBase&) = delete;
  CoreBase& operator=(const CoreBase&) = delete;

  // On the notifier's thread: for what a program is told.
  void notify(port::Task task) { notifier_.post(std::move(task)); }

  Guarantees guarantees() const { return store_->guarantees(); }
  const std::string& store_url() const { return options_.store_url; }
  bool outlasts_first() const noexcept { return options_.outlasts_first; }
  // As people see who holds it (OwnerInfo::owner).
  std::string owner_of(const Acquisition& acquisition) const;
  // The part of its lease that is not counted on.
  std::int64_t slack_ns(const Acquisition& acquisition) const;
  bool forked() const noexcept;
  Error forked_error() const;

  // The longest time that a request or close() may take.
  static constexpr std::chrono::hours kLongestRequest{24};

 protected:
  explicit CoreBase(CoreOptions options);
  virtual ~CoreBase() = default;

  // A request of the renewal thread: a renewal, a waiter's heartbeat or an adoption. An adoption is
  // answered by `adopted`, which nothing else has.
  struct AdoptReply {
    Result<port::AcquisitionState> state;
    bool given_up = false;  // Before its own deadline, for another's.
  };
  struct Outgoing {
    AcquisitionPtr acquisition;
    port::RenewItem item;
    Nanos lease{};  // A renewal, or a heartbeat, may cost a part of this.
    bool waiting = false;
    BootInstant planned{};
    // The lease's end; for an adoption, the time of its answer.
    BootInstant end = BootInstant::max();
    port::Done<AdoptReply> adopted{};
    // While an earlier request is not answered; then a new connection has its time.
    BootInstant waits_until{};
    BootInstant sent_at{};
    std::uint32_t group = 0;  // As the store tells.
  };

  // A call under way: close() lets it end before it stops the threads that answer it.
  class Call;
  struct Asking;
  // Holds the mutex; then gives the answers that were found and sends the requests.
  class Turn;

  // --- Done by the layers above.

  // On the loop, at the time that was armed.
  virtual void on_timer() HOLDFAST_REQUIRES(mutex_) = 0;
  virtual void send_outbox() HOLDFAST_EXCLUDES(mutex_) = 0;
  // The whole core, for who must outlive this call.
  virtual std::shared_ptr<Core> self() = 0;

  // --- Calls.

  // False: the client is closed, and nothing was counted.
  bool begin_call();
  Result<void> check_alive() const;
  Error closed_error() const;
  void end_call() HOLDFAST_EXCLUDES(mutex_);
  // Runs it on the loop, after all replies that came with this one. So a thread is woken once for
  // all of them, not once for each.
  void answer_later(std::function<void()> answer);
  void answer_gathered();
  // Threads whose waits have an answer.
  void wake_threads(const std::vector<WaitPtr>& woken);
  // Asks the store; `done` is called on the loop. The core lives until then.
  template <typename T, typename Send>
  void ask(const Send& send, Done<T> done);
  // Waits for the answer of an asynchronous call. `requests`: the number that it makes in sequence.
  template <typename T>
  Result<T> await(const std::function<void(Done<T>)>& start, int requests = 1) const;

  // --- The words of requests and messages.

  std::string stored(const std::string& name) const;
  std::string shown(const std::string& stored_name) const;
  port::OwnerPtr owner_info(const std::string& reason, const std::string& trace_id = {},
                            const std::optional<Owner>& owner = std::nullopt,
                            Duration lock_delay = {}) const;
  BootInstant request_deadline() const;
  std::string at_store() const;                          // " (sqlite:///...)"
  std::string lock_here(const Acquisition& lock) const;  // "lock 'orders' (sqlite:///...)"
  // The same before a failure that names the store itself: "lock 'orders'".
  std::string lock_before(const Acquisition& lock, const Error& why) const;
  port::AcquisitionRequest end_of(const Acquisition& acquisition) const;

  // --- Time.

  void schedule(const AcquisitionPtr& acquisition, BootInstant at) HOLDFAST_REQUIRES(mutex_);
  void unschedule(Acquisition& acquisition) HOLDFAST_REQUIRES(mutex_);
  void arm(BootInstant at) HOLDFAST_REQUIRES(mutex_);

  const CoreOptions options_;
  const std::uint64_t generation_;
  ClockBound bound_;
  Duration longest_lease_ = Duration::max();  // A session's, where leases are part of one.
  bool may_outlive_ = true;                   // Leases can go on without this client.
  machine::OwnerInfo owner_;
  std::atomic<bool> closed_{false};
  // A call counts itself before it looks at closed_, and close() sets that before it looks here.
  std::atomic<std::size_t> calls_under_way_{0};
  // Taken under the mutex where a request goes by the loop. An inline request may be overtaken by a
  // later number; if a store refuses it for that, it is asked again.
  std::atomic<std::uint64_t> last_issue_{0};
  std::atomic<std::uint64_t> pushes_missed_{0};  // How often.

  // Complete before the loop, whose thread uses it.
  base::LocalMutex mutex_;
  Schedule schedule_ HOLDFAST_GUARDED_BY(mutex_);
  BootInstant armed_at_ HOLDFAST_GUARDED_BY(mutex_) = BootInstant::max();
  base::LocalCondition drained_;
  // Gathered in a turn, for its end.
  std::vector<std::function<void()>> answers_ HOLDFAST_GUARDED_BY(mutex_);
  // Threads wait for the answers of these, and may leave with them before they are woken.
  std::vector<WaitPtr> woken_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<Outgoing> outbox_ HOLDFAST_GUARDED_BY(mutex_);
  // On the loop only.
  std::vector<std::function<void()>> late_answers_;
  std::vector<WaitPtr> late_woken_;

  // Built before the store, which posts to the loop from its first moment.
  mutable EventLoop loop_;
  Worker notifier_{"holdfast-notify"};
  Reports reports_{options_.client, options_.store_url, notifier_};
  std::unique_ptr<port::Store> store_;
};

}  // namespace holdfast::session
