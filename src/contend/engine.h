// Runs the acquisitions of one client on a backend. It carries out the actions of their step
// machines (acquisition.h), and brings them answers, time and unrequested events. Everything here
// runs on the loop.
//
// The actions of all acquisitions wait in one queue. So if a caller asks for the next thing from
// inside its answer, that request never overtakes earlier ones. A request that is outdated by then
// is not sent, and outdated answers are dropped.
//
// An acquisition with an unknown outcome stays here until the outcome is known or its session has
// ended, so no contender is left in the store without an owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/due_heap.h"
#include "src/contend/acquisition.h"
#include "src/contend/administration.h"
#include "src/contend/availability.h"
#include "src/contend/backend.h"
#include "src/contend/loop_timer.h"
#include "src/port/registry.h"

namespace holdfast::contend {

class Engine final : public Events, public std::enable_shared_from_this<Engine> {
 public:
  using BootInstant = base::BootInstant;
  template <typename T>
  using Done = port::Done<T>;

  Engine(Backend& backend, const port::StoreContext& context, machine::Duration min_ttl);

  // `now` is when the request arrived, not before its owner sent it.
  void acquire(port::AcquireRequest request, BootInstant now, Done<port::AcquisitionState> done);
  void renew(const std::vector<port::RenewItem>& items, BootInstant now, BootInstant deadline,
             const Done<std::vector<Result<port::AcquisitionState>>>& done);
  void end(const port::AcquisitionRequest& request, Done<port::EndStatus> done);
  void downgrade(const port::AcquisitionRequest& request, Done<port::AcquisitionState> done);
  void keep(port::KeepRequest request, Done<bool> done);
  void set_value(const port::AcquisitionRequest& request, std::string value, Done<bool> done);
  void resize(const port::AcquisitionRequest& request, std::uint32_t capacity,
              const Done<bool>& done);
  // Requests of people, which need no acquisition.
  Administration& administration() { return *administration_; }

  // Answers all requests under way with kClosed. Afterwards nothing is sent or reported.
  void close();
  bool closed() const { return closed_; }

  // --- Events.
  void on_session_ended(std::uint64_t epoch, const Error& why) override;
  void on_notify() override;
  void on_alarm(const std::string& line) override;

 private:
  struct Running;
  using RunningPtr = std::shared_ptr<Running>;
  using Name = std::pair<std::string, machine::AcquisitionId>;
  using NameView = std::pair<std::string_view, machine::AcquisitionId>;

  // The callers that wait for an acquisition's answers, and the waker of its watch.
  struct Callers {
    std::vector<Done<port::AcquisitionState>> asks;
    std::vector<Done<port::EndStatus>> ends;
    std::vector<Done<port::AcquisitionState>> downgrades;
    std::vector<Done<bool>> keeps;
    WakerPtr waker;
    // The watches of waiters of this client that it blocks. They watch it here, not at the store.
    std::vector<std::weak_ptr<Waker>> followers;

    bool none() const {
      return asks.empty() && ends.empty() && downgrades.empty() && keeps.empty() && !waker &&
             followers.empty();
    }
  };
  // An acquisition. A program may hold 100,000 locks, and a holder has no callers.
  struct Running {
    explicit Running(AcquisitionFsm fsm) : acquisition(std::move(fsm)) {}

    AcquisitionFsm acquisition;
    std::unique_ptr<Callers> waiting;  // nullptr: none.
    std::uint32_t due_place = base::kNotDue;

    const std::string& lock() const { return acquisition.lock(); }
    NameView name() const { return {acquisition.lock(), acquisition.id()}; }
    Callers& callers() {
      if (!waiting) waiting = std::make_unique<Callers>();
      return *waiting;
    }
    void forget_callers() {
      if (waiting && waiting->none()) waiting.reset();
    }
  };
  // Orders acquisitions by their locks' names, of which the set keeps no copies.
  struct ByName {
    using is_transparent = void;
    static NameView of(const RunningPtr& running) { return running->name(); }
    static NameView of(const NameView& name) { return name; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return of(a) < of(b);
    }
  };
  struct Pending {
    RunningPtr running;
    Action action;
  };

  std::optional<Error> refuse(const port::AcquireRequest& request) const;
  std::optional<Error> refuse_ttl(machine::Duration ttl) const;
  std::optional<Error> refuse_upgrade(const port::AcquireRequest& request,
                                      const RunningPtr& base) const;
  RunningPtr find(const std::string& name, const machine::AcquisitionId& id) const;
  RunningPtr upgrade_of(const AcquisitionFsm& base) const;
  RunningPtr add(AcquisitionFsm acquisition);
  void begin(AcquisitionFsm acquisition, Done<port::AcquisitionState> done);
  void queue_shrink(const port::AcquisitionRequest& request, std::uint32_t by, std::uint32_t from,
                    const Done<bool>& done);

  // --- Steps and their actions.
  Context context() const;
  void step(const RunningPtr& running, Event&& event) {
    step(running, std::move(event), context());
  }
  void step(const RunningPtr& running, Event&& event, const Context& context);
  void follow_up(const RunningPtr& running, bool held_before, Actions& actions);
  void perform_all();
  void perform(const RunningPtr& running, Answer& action);
  void perform(const RunningPtr& running, AnswerEnds& action);
  void perform(const RunningPtr& running, AnswerDowngrades& action);
  void perform(const RunningPtr& running, AnswerKeeps& action);
  void perform(const RunningPtr& running, Tell& action);
  void perform(const RunningPtr& running, NoteBroken& action);
  void perform(const RunningPtr& running, NoteUnheard& action);
  void perform(const RunningPtr& running, NoteKeptOut& action);
  void perform(const RunningPtr& running, NotifySessions& action);
  void perform(const RunningPtr& running, Forget& action);
  void perform(const RunningPtr& running, Ask& ask);
  void send(const RunningPtr& running, const Ask& ask, AwaitSession& request);
  void send(const RunningPtr& running, const Ask& ask, Create& request);
  void send(const RunningPtr& running, const Ask& ask, ListQueue& request);
  void send(const RunningPtr& running, const Ask& ask, ListInFull& request);
  void send(const RunningPtr& running, const Ask& ask, ReadRecord& request);
  void send(const RunningPtr& running, const Ask& ask, ReadEntry& request);
  void send(const RunningPtr& running, const Ask& ask, WriteDetails& request);
  void send(const RunningPtr& running, const Ask& ask, Apply& request);
  void send(const RunningPtr& running, const Ask& ask, KeepEntry& request);
  void send(const RunningPtr& running, const Ask& ask, DropEntry& request);
  void send(const RunningPtr& running, const Ask& ask, PassGate& request);
  void send(const RunningPtr& running, const Ask& ask, Remove& request);
  // Adds the session's part.
  Details whole(Details details) const;
  // Brings the answer to a request.
  template <typename T>
  class ReplyTo;
  // Calls `then` with the session in whose name a request about it is made; 0: there is none.
  void in_session(bool kept, const AcquisitionFsm& acquisition, BootInstant deadline,
                  const std::function<void(std::uint64_t epoch)>& then);
  bool is_record_known(const std::string& lock, const Listing& listing) const;
  void note_record(const std::string& lock, std::uint64_t revision);
  static void end_watch(Running& running);
  WakerPtr watch(const RunningPtr& running, Watch watch, const QueueEntry* entry);
  // This client's acquisition with that entry, if the other one may follow it.
  RunningPtr followed(const AcquisitionFsm& waiter, const QueueEntry& entry) const;
  void follow(const RunningPtr& waiter, const Ask& ask, const QueueEntry& entry,
              const RunningPtr& before);
  static bool has_follower(const Running& running);
  void wake_followers(Running& running);

  // --- Sessions.
  void on_session_opened(const RunningPtr& running, const Result<SessionView>& opened);
  void open(const RunningPtr& running, const SessionView& session);
  RunningPtr adopt(const port::RenewItem& item, BootInstant now, BootInstant deadline);
  std::optional<machine::AcquisitionId> choose_id(const AcquisitionFsm& acquisition,
                                                  std::uint64_t epoch);
  void hint(const std::vector<RunningPtr>& running);

  // --- Time.
  void schedule(const RunningPtr& running);
  void on_timer();

  Backend& backend_;
  port::Listener* listener_;
  const machine::Duration min_ttl_;
  const StoreTraits traits_;
  Availability availability_;
  const std::shared_ptr<Administration> administration_;
  LoopTimer timer_;
  std::set<RunningPtr, ByName> running_;
  machine::OwnerPtr last_owner_;  // AcquisitionFsm::share_owner()
  std::map<Name, Error> broken_;  // Answers for the holders of broken locks, until these give up.
  std::vector<Pending> pending_;  // Pending from `next_` on.
  std::size_t next_ = 0;
  bool performing_ = false;
  // For each lock, the revision of its newest record of a known form.
  std::unordered_map<std::string, std::uint64_t> readable_;
  base::DueHeap<Running> due_;
  std::vector<RunningPtr> awaiting_session_;  // In the order of the calls.
  std::uint64_t last_issue_ = 0;
  // For stores that reuse names: the number with which this session's names begin.
  std::uint64_t names_ = 0;
  std::uint64_t names_epoch_ = 0;
  // Names of this session that kept contenders have, whom their clients may have let go.
  std::set<Name> reserved_;
  bool closed_ = false;
};

}  // namespace holdfast::contend
