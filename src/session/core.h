// The driver: executes what the step functions decide, on one store.
//
// Three threads, each started when first needed: the loop (completions, pushes, deadlines; never
// blocks), the renewal thread (calls Store::renew, which may block) and the notifier (callbacks of
// the user). A request that needs no waiting runs on the caller's own thread where the store can.
//
// Guarantee: a lease's deadline fires on the loop whatever the store and the user's callbacks do;
// every call answers kClosed in a forked child, and sends nothing.
// Thread-safety: all calls from any thread.
// Ownership: handles share the core. The last one closes it, waiting at most a second for queued
// releases (on a thread of its own when that happens inside a callback).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/lock_info.h"
#include "holdfast/log_event.h"
#include "holdfast/mode.h"
#include "holdfast/options.h"
#include "holdfast/result.h"
#include "src/base/local_mutex.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/session/acquisition.h"
#include "src/session/administration.h"
#include "src/session/event_loop.h"
#include "src/session/names.h"
#include "src/session/worker.h"

namespace holdfast::session {

class DeadlockWatch;
class WatchSampler;

struct CoreOptions {
  std::string store_url;   // Redacted: for messages.
  std::string name_space;  // Put before every name, with a '/'.
  ClientOptions client;
  bool url_has_ttl = false;                   // client.default_ttl is the URL's.
  std::chrono::milliseconds open_timeout{0};  // For make(); zero: the store's own.
};

class Core final : public port::Listener, public std::enable_shared_from_this<Core> {
 public:
  using AcquisitionPtr = std::shared_ptr<Acquisition>;

  static Result<std::shared_ptr<Core>> make(port::StoreFactory factory, port::StoreUrl url,
                                            CoreOptions options);
  ~Core() override;
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // An asynchronous call's answer: called once, without the core's mutex, on any thread, also on
  // the caller's before the call returns. It must neither block nor throw, nor run code of the
  // user.
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  // nullptr: busy, and it was not to wait. The acquisition is held otherwise.
  Result<AcquisitionPtr> acquire(std::string name, const holdfast::Mode& mode,
                                 AcquireOptions options, bool may_wait);
  // For cancel(); nullptr: it has its answer.
  AcquisitionPtr acquire(std::string name, const holdfast::Mode& mode, AcquireOptions options,
                         bool may_wait, Done<AcquisitionPtr> done);
  // Exclusively, waiting; of a primitive.
  AcquisitionPtr acquire(const InnerName& name, AcquireOptions options, Done<AcquisitionPtr> done);
  // An exclusive lease beside the shared one, for as long as both last. Without a ttl in the
  // options it has that of the shared one.
  Result<AcquisitionPtr> upgrade(const AcquisitionPtr& reader, AcquireOptions options,
                                 bool may_wait);
  AcquisitionPtr upgrade(const AcquisitionPtr& reader, AcquireOptions options, bool may_wait,
                         Done<AcquisitionPtr> done);
  // Several locks in one step, at most port::kMostAtOnce; nullopt: not all were free. Never waits
  // for a holder. kUnsupported: the store cannot, nothing was done: ask for one after the other.
  struct Wanted {
    std::string name;
    holdfast::Mode mode;
  };
  using Multi = std::optional<std::vector<AcquisitionPtr>>;
  Result<Multi> try_acquire_all(const std::vector<Wanted>& locks, const AcquireOptions& options);
  void try_acquire_all(const std::vector<Wanted>& locks, const AcquireOptions& options,
                       Done<Multi> done);
  // release()'s answer for each, in one request where the store can.
  std::vector<Result<void>> release_all(const std::vector<AcquisitionPtr>& held);
  void release_all(const std::vector<AcquisitionPtr>& held, Done<std::vector<Result<void>>> done);
  // The wait ends with kCancelled, unless it has ended already.
  void cancel(const AcquisitionPtr& acquisition);
  Result<AcquisitionPtr> adopt(std::string name, const holdfast::Mode& mode, port::AcquisitionId id,
                               AcquireOptions options);
  void adopt(std::string name, const holdfast::Mode& mode, port::AcquisitionId id,
             AcquireOptions options, Done<AcquisitionPtr> done);
  Result<void> release(const AcquisitionPtr& acquisition);
  void release(const AcquisitionPtr& acquisition, Done<void> done);
  // As a handle goes. `at`: not before that; until then the store keeps the lock.
  void release_later(const AcquisitionPtr& acquisition, std::optional<BootInstant> at = {});
  Result<void> renew(const AcquisitionPtr& acquisition);
  void renew(const AcquisitionPtr& acquisition, Done<void> done);
  // Exclusive becomes shared; an upgrade is given back.
  Result<void> downgrade(const AcquisitionPtr& acquisition);
  void downgrade(const AcquisitionPtr& acquisition, Done<void> done);
  void detach(const AcquisitionPtr& acquisition);
  // The wall clock disagrees with boot time: renew now.
  void doubt(const AcquisitionPtr& acquisition);

  // Lets go of a lease without releasing it: the store keeps the lock for so long from now on, and
  // in the same step sets the value. Where that fails it is held and renewed as before, if its time
  // is not over; with kOutcomeUnknown release_later() leaves it to the store. kLost, kBroken as
  // set_value().
  void keep(const AcquisitionPtr& acquisition, std::chrono::milliseconds time,
            std::optional<std::string> value, Done<void> done);

  // The value beside a lock: at most 4 KiB, written by a holder. kLost, kBroken: nothing was sent
  // when this side knew.
  void set_value(const AcquisitionPtr& holder, std::string value, Done<void> done);

  // Something to be done later: `done` is called at `at`, or when it is woken; with kClosed when
  // the client is closed.
  struct Sleeper;
  using SleeperPtr = std::shared_ptr<Sleeper>;
  SleeperPtr sleep(BootInstant at, Done<void> done);
  void wake(const SleeperPtr& sleeper);

  // On the notifier's thread: for what a program is told.
  void notify(port::Task task) { notifier_.post(std::move(task)); }

  // Looking at locks, breaking them, values: see there.
  Administration& administration() { return administration_; }
  Guarantees guarantees() const { return store_->guarantees(); }
  const std::string& store_url() const { return options_.store_url; }

  // A second one waits for the first and answers the same.
  Result<void> close(std::chrono::nanoseconds limit);
  // On a thread of its own: close() waits.
  void close(std::chrono::nanoseconds limit, const Done<void>& done);

  // For a request with these options.
  std::chrono::milliseconds ttl_of(const AcquireOptions& options) const;
  // As people see who holds it (OwnerInfo::owner).
  std::string owner_of(const Acquisition& acquisition) const;
  bool forked() const noexcept;
  Error forked_error() const;
  static std::stop_token lost_token(Acquisition& acquisition);

  // The longest time that a request or close() may take.
  static constexpr std::chrono::hours kLongestRequest{24};

  void on_push(const port::Push& push) override;
  void on_pushes_missed() override;
  void on_pushes_begin() override;
  void on_alarm(const std::string& line) override;

 private:
  friend class Administration;
  friend class DeadlockWatch;
  friend class WatchSampler;
  // The outcome of a request to adopt a lease. `given_up`: before its own deadline, for another's.
  struct AdoptReply {
    Result<port::AcquisitionState> state;
    bool given_up = false;
  };
  struct Outgoing {
    AcquisitionPtr acquisition;
    port::RenewItem item;
    Nanos lease{};  // A renewal, or a heartbeat, may cost a part of this.
    bool waiting = false;
    BootInstant planned{};
    BootInstant end =
        BootInstant::max();            // The lease's; for an adoption, when it must be answered.
    port::Done<AdoptReply> adopted{};  // Set: the request adopts a lease.
    // While an earlier request is not answered; then a new connection has its time.
    BootInstant waits_until{};
    BootInstant sent_at{};
  };
  struct Batch {
    std::vector<Outgoing> sent;
    BootInstant deadline{};
    bool given_up = false;  // Guarded by the mutex.
  };

  // A call under way: close() lets it end before it stops the threads that answer it.
  class Call;
  struct Asking;
  // Holds the mutex; then gives the answers that were found and sends the requests.
  class Turn;

  explicit Core(CoreOptions options);
  static void dispose(Core* core);
  Result<void> check_alive() const;
  Error closed_error() const;

  // core_acquire.cc
  Result<AcquisitionPtr> make_contender(std::string name, const holdfast::Mode& mode,
                                        AcquireOptions options);
  port::AcquireRequest request_for(const Acquisition& acquisition, bool may_wait) const;
  void begin_anew(Acquisition& acquisition);
  port::AcquisitionRequest end_of(const Acquisition& acquisition) const;
  port::AcquisitionRequest release_of(const Acquisition& acquisition) const;
  AcquireFsm::Terms terms_for(const Acquisition& acquisition, bool may_wait) const;
  Result<AcquisitionPtr> prepare(std::string name, const holdfast::Mode& mode,
                                 AcquireOptions options);
  Result<AcquisitionPtr> prepare_checked(std::string name, const holdfast::Mode& mode,
                                         AcquireOptions options);
  Result<AcquisitionPtr> prepare_upgrade(const AcquisitionPtr& reader, AcquireOptions options);
  Result<AcquisitionPtr> take(Result<AcquisitionPtr> made, bool may_wait);
  AcquisitionPtr take(Result<AcquisitionPtr> made, bool may_wait, Done<AcquisitionPtr> done);
  std::optional<Result<AcquisitionPtr>> acquire_inline(const AcquisitionPtr& acquisition,
                                                       bool may_wait);
  Result<AcquisitionPtr> acquire_waiting(const AcquisitionPtr& acquisition, bool may_wait);
  Result<AcquisitionPtr> await_answer(const AcquisitionPtr& acquisition);
  void await_at_push_reader(Acquisition& acquisition) HOLDFAST_REQUIRES(mutex_);
  void leave_push_reader() HOLDFAST_REQUIRES(mutex_);
  void start_here(const AcquisitionPtr& acquisition);
  void start_waiting(const AcquisitionPtr& acquisition, bool may_wait) HOLDFAST_REQUIRES(mutex_);
  bool fail_if_closed(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void heed_stop(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void heed_deadlocks(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  Result<AcquisitionPtr> settle(const AcquisitionPtr& acquisition, Result<AcquisitionPtr> answer);
  void execute(const AcquisitionPtr& acquisition, const AcquireFsm::Action& action)
      HOLDFAST_REQUIRES(mutex_);
  void send_acquire(const AcquisitionPtr& acquisition, bool fresh_id) HOLDFAST_REQUIRES(mutex_);
  void send_cancel(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void tell_queued(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void finish(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void conclude(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void start_lease(const AcquisitionPtr& acquisition, const port::AcquisitionState& state,
                   const SendLog& log) HOLDFAST_REQUIRES(mutex_);

  // core_multi.cc
  struct Taking;
  struct Giving;
  std::string names_of(const std::vector<AcquisitionPtr>& acquisitions) const;
  Result<void> prepare_all(const std::vector<Wanted>& locks, const AcquireOptions& options,
                           Taking& taking);
  void begin_all(Taking& taking);
  std::vector<port::AcquireRequest> requests_of(Taking& taking) const;
  void give_back(Taking& taking) HOLDFAST_EXCLUDES(mutex_);
  std::optional<Result<Multi>> on_no_answer(Taking& taking, const Error& error);
  std::optional<Result<Multi>> on_taken(Taking& taking, const Result<port::Store::Grants>& reply);
  Result<Multi> conclude(Taking& taking, Result<Multi> answer);
  void send_all(const std::shared_ptr<Taking>& taking);
  std::optional<Result<Multi>> take_all_here(Taking& taking);
  Giving begin_release_all(const std::vector<AcquisitionPtr>& held) HOLDFAST_EXCLUDES(mutex_);
  std::vector<Result<void>> end_release_all(
      const Giving& giving, const Result<std::vector<Result<port::EndStatus>>>& ended);

  // core_adopt.cc
  struct Adoption;
  void try_to_adopt(const std::shared_ptr<Adoption>& adoption);
  void on_adopted(const std::shared_ptr<Adoption>& adoption, std::uint64_t seq,
                  const Result<AdoptReply>& reply);

  // core_renew.cc
  void apply(const AcquisitionPtr& acquisition, const RenewalFsm::Action& action)
      HOLDFAST_REQUIRES(mutex_);
  void look_at_what_is_held() HOLDFAST_REQUIRES(mutex_);
  void publish(Acquisition& acquisition) HOLDFAST_REQUIRES(mutex_);
  void lose(const AcquisitionPtr& acquisition, const Error& why) HOLDFAST_REQUIRES(mutex_);
  void send_out(const AcquisitionPtr& acquisition, std::uint64_t seq, bool waiting)
      HOLDFAST_REQUIRES(mutex_);
  void put_out(Outgoing outgoing) HOLDFAST_REQUIRES(mutex_);
  void send_outbox() HOLDFAST_EXCLUDES(mutex_);
  bool send_batch() HOLDFAST_EXCLUDES(mutex_);
  static BootInstant request_end(const Outgoing& outgoing, BootInstant now);
  std::vector<port::RenewItem> take_outbox(Batch& batch) HOLDFAST_EXCLUDES(mutex_);
  void give_up_renewal(BootInstant now) HOLDFAST_REQUIRES(mutex_);
  void on_renewed(const Batch& batch,
                  const Result<std::vector<Result<port::AcquisitionState>>>& replies)
      HOLDFAST_EXCLUDES(mutex_);
  void on_renewed(const Outgoing& sent, BootInstant now,
                  const Result<port::AcquisitionState>& reply) HOLDFAST_REQUIRES(mutex_);
  void on_timer() HOLDFAST_EXCLUDES(mutex_);
  void on_due(const AcquisitionPtr& acquisition, BootInstant now) HOLDFAST_REQUIRES(mutex_);
  void schedule(const AcquisitionPtr& acquisition, BootInstant at) HOLDFAST_REQUIRES(mutex_);
  void unschedule(Acquisition& acquisition) HOLDFAST_REQUIRES(mutex_);
  void arm(BootInstant at) HOLDFAST_REQUIRES(mutex_);
  Result<std::uint64_t> ask_to_renew(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  std::optional<Result<void>> renewed(Acquisition& acquisition, std::uint64_t wanted)
      HOLDFAST_REQUIRES(mutex_);
  void answer_renewals(Acquisition& acquisition) HOLDFAST_REQUIRES(mutex_);

  // core_release.cc
  void look_at_deadline(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  std::optional<Result<void>> begin_release(const AcquisitionPtr& acquisition,
                                            std::optional<Error>& loss) HOLDFAST_REQUIRES(mutex_);
  Result<void> end_release(const AcquisitionPtr& acquisition, const std::optional<Error>& loss,
                           const Result<port::EndStatus>& ended);
  void send_release(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  void on_release_sent(const AcquisitionPtr& acquisition, std::optional<Errc> failure);
  void end_locally(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  LogEvent log_event(LogSeverity severity, const char* event, std::string text) const;
  LogEvent log_event(LogSeverity severity, const char* event, std::string text,
                     const Acquisition& acquisition, Errc error) const;
  void log(LogEvent event);

  void end_call() HOLDFAST_EXCLUDES(mutex_);

  // On the loop: when the replies that came together with this one are through as well. Who is told
  // is woken once for all of them, and asks for all of them before the loop is woken.
  void answer_later(std::function<void()> answer);

  // core_close.cc
  Result<void> close_now(BootInstant until);
  Result<void> await_close(BootInstant until);
  void end_all() HOLDFAST_EXCLUDES(mutex_);

  // core_lease.cc
  Result<void> check_held(const AcquisitionPtr& acquisition) HOLDFAST_REQUIRES(mutex_);
  Result<std::uint64_t> begin_to_keep(const AcquisitionPtr& acquisition, Duration time)
      HOLDFAST_EXCLUDES(mutex_);
  void end_keeping(const AcquisitionPtr& acquisition, const Result<bool>& kept)
      HOLDFAST_EXCLUDES(mutex_);
  Result<void> on_downgraded(const AcquisitionPtr& acquisition,
                             const Result<port::AcquisitionState>& reply);
  // core_sleep.cc
  void wake_sleepers(BootInstant now) HOLDFAST_REQUIRES(mutex_);
  void rouse(const SleeperPtr& sleeper, const Result<void>& why) HOLDFAST_REQUIRES(mutex_);

  // core.cc
  // Asks the store; `done` is called on the loop. The core lives until then.
  template <typename T, typename Send>
  void ask(const Send& send, Done<T> done);
  // Waits for the answer of an asynchronous call. `requests`: the number that it makes in sequence.
  template <typename T>
  Result<T> await(const std::function<void(Done<T>)>& start, int requests = 1) const;
  std::string stored(const std::string& name) const;
  std::string shown(const std::string& stored_name) const;
  port::OwnerPtr owner_info(const std::string& reason, const std::string& trace_id = {},
                            const std::optional<Owner>& owner = std::nullopt) const;
  BootInstant request_deadline() const;
  std::string at_store() const;  // " (sqlite:///...)"

  // core_observe.cc: only where there is a feed_.
  SeenLock seen(const Acquisition& acquisition) const;
  void tell_observer(ObserverFeed::News news);
  void see_asked(Acquisition& acquisition);
  void see_queue(Acquisition& acquisition) HOLDFAST_REQUIRES(mutex_);
  void see_granted(Acquisition& acquisition, BootInstant now) HOLDFAST_REQUIRES(mutex_);
  void see_answer(const Acquisition& acquisition, const Result<AcquisitionPtr>& answer);
  void see_lost(Acquisition& acquisition, const Error& why) HOLDFAST_REQUIRES(mutex_);
  void see_ended(Acquisition& acquisition, HoldEnd how) HOLDFAST_REQUIRES(mutex_);
  void see_renewed(const Outgoing& sent, BootInstant now,
                   const Result<port::AcquisitionState>& reply);

  Administration administration_{*this};
  const CoreOptions options_;
  const std::shared_ptr<ObserverFeed> feed_;  // nullptr: nobody observes.
  const std::uint64_t generation_;
  ClockBound bound_;
  Duration longest_lease_ = Duration::max();  // A session's, where leases are part of one.
  machine::OwnerInfo owner_;
  std::atomic<bool> closed_{false};
  // Taken under the mutex where a request goes by the loop. One that goes inline may be overtaken
  // by a later number: a store that refuses it then is asked anew.
  std::atomic<std::uint64_t> last_issue_{0};
  std::atomic<std::uint64_t> pushes_missed_{0};  // How often.

  // Complete before the loop, whose thread uses it.
  base::LocalMutex mutex_;
  struct IdHash {
    std::size_t operator()(const port::AcquisitionId& id) const { return id.low; }
  };
  std::unordered_map<port::AcquisitionId, AcquisitionPtr, IdHash> waiting_
      HOLDFAST_GUARDED_BY(mutex_);
  Schedule schedule_ HOLDFAST_GUARDED_BY(mutex_);
  std::multimap<BootInstant, SleeperPtr> sleepers_ HOLDFAST_GUARDED_BY(mutex_);
  BootInstant armed_at_ HOLDFAST_GUARDED_BY(mutex_) = BootInstant::max();
  std::vector<Outgoing> outbox_ HOLDFAST_GUARDED_BY(mutex_);
  // The outbox waits for the batch that the renewal thread sends, but no longer.
  BootInstant outbox_waits_until_ HOLDFAST_GUARDED_BY(mutex_) = BootInstant::max();
  Batch* under_way_ HOLDFAST_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::function<void()>> answers_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<AcquisitionPtr> woken_ HOLDFAST_GUARDED_BY(mutex_);  // Threads wait for their answer.
  std::list<Acquisition*> at_push_reader_ HOLDFAST_GUARDED_BY(mutex_);  // The first one listens.
  bool push_reader_is_left_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> late_answers_;  // On the loop only.
  std::vector<std::weak_ptr<WatchSampler>> samplers_ HOLDFAST_GUARDED_BY(mutex_);
  std::shared_ptr<DeadlockWatch> deadlocks_ HOLDFAST_GUARDED_BY(mutex_);  // Once a wait is named.
  std::size_t releases_under_way_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::size_t calls_under_way_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::optional<Result<void>> close_outcome_ HOLDFAST_GUARDED_BY(mutex_);
  base::LocalCondition drained_;

  // Built before the store, which posts to the loop from its first moment.
  EventLoop loop_;
  Worker renewal_{"holdfast-renew"};
  Worker notifier_{"holdfast-notify"};
  std::unique_ptr<port::Store> store_;
};

}  // namespace holdfast::session
