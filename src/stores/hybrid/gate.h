// The acquisitions of one client of a hybrid store, each on its way to the arbiter.
//
//   Phase       entered by                          left by
//   kLocal      another one of this client is next  that one holds or left: kFilter
//   kFilter     it is this client's turn            the filter lets it pass, is out, or took longer
//                                                   than the patience: kAsking
//   kAsking     a request to the arbiter            its answer: kThere, kPaused, or over
//   kPaused     the arbiter failed to answer        a pause, or the session asks again: kAsking
//   kThere      the arbiter said held or waiting    release, loss: over
//   kEnding     release, cancel                     the arbiter's answer: over
//
// Guarantee: "held" comes from the arbiter, and names a request of the session that was made before
// the arbiter's lease began. At most one acquisition of this client for a name waits at the arbiter
// or is asked about there, beside those that it holds.
// Not guaranteed: an order among clients. The acquisitions of one client are served in order.
//
// Thread-safety: the loop only, but is_local(). Ownership: arbiter and filter outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/base/jitter.h"
#include "src/base/local_mutex.h"
#include "src/port/alarms.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/rows/ended_ids.h"
#include "src/stores/hybrid/filter.h"

namespace holdfast::stores::hybrid {

class Gate : public std::enable_shared_from_this<Gate>, public port::Listener {
 public:
  using State = port::AcquisitionState;
  using Now = std::function<machine::Instant()>;
  struct Settings {
    std::chrono::milliseconds patience{};
    std::chrono::milliseconds recheck{};
    Now now{};  // For the leases of waiters.
  };

  Gate(const port::StoreContext& context, Settings settings);
  void connect(port::Store& arbiter, Filter& filter);

  void acquire(port::AcquireRequest request, port::Done<State> done);
  // Release, or cancel.
  void end(const port::AcquisitionRequest& request, bool release, port::Done<port::EndStatus> done);
  // Whether the arbiter knows nothing of it: then beat() answers its heartbeats. From any thread.
  bool is_local(port::AcquisitionId id) const HOLDFAST_EXCLUDES(mutex_);
  void beat(const port::RenewItem& item, base::BootInstant deadline, port::Done<State> done);
  // The arbiter's answer to a renewal, as the session has to read it.
  Result<State> renewed(const port::RenewItem& item, const Result<State>& answer);
  // It holds without us from now on.
  void kept(const std::string& name, port::AcquisitionId id);
  // The number that the arbiter knows it by; zero: none.
  std::uint64_t issue_of(const std::string& name, port::AcquisitionId id) const;
  // The last answer about who holds it is out of date.
  void forget(const std::string& name);

  // Answers with kClosed whatever is under way.
  void close();
  bool closed() const { return closed_; }

 private:
  using BootInstant = base::BootInstant;
  using Ask = port::Done<State>;
  enum class Phase : std::uint8_t { kLocal, kFilter, kAsking, kPaused, kThere, kEnding };
  struct Entry {
    port::AcquireRequest request;
    Phase phase = Phase::kLocal;
    bool held = false;
    bool limited = false;        // Its wait at the filter will end.
    bool told = false;           // It has been told that it waits.
    bool met = false;            // It has heard of somebody else, at the filter or the arbiter.
    bool maybe_there = false;    // An unanswered request may have reached the arbiter.
    std::uint64_t seq = 0;       // The newest heartbeat that was answered here.
    std::uint64_t base_seq = 0;  // The session's number of the arbiter's request 0.
    std::uint64_t issue = 0;     // At the arbiter.
    std::uint32_t ahead = 0;
    machine::Instant alive_until{};
    Filter::TicketPtr ticket{};
    std::vector<Ask> asks{};
    std::optional<Error> trouble{};  // For the next heartbeat.
  };
  using EntryPtr = std::shared_ptr<Entry>;
  struct Lock {
    EntryPtr next{};  // The waiter that is at the filter or at the arbiter.
    std::vector<EntryPtr> queue{};  // An empty deque takes 576 bytes.
    EntryPtr trying{};  // A try at the arbiter, and those that will hear the same.
    std::vector<EntryPtr> tries{};
    BootInstant busy_until{};  // The arbiter's "busy" is fresh until then.
    // This client released it last, and has heard of nobody else who wants it.
    BootInstant calm_until{};
  };

  // --- port::Listener: the arbiter's.
  void on_push(const port::Push& push) override;
  void on_pushes_missed() override { listener_->on_pushes_missed(); }
  void on_pushes_begin() override { listener_->on_pushes_begin(); }
  void on_alarm(const std::string& line) override { listener_->on_alarm(line); }
  void on_watches_blind(const Error& why) override { listener_->on_watches_blind(why); }

  std::optional<Error> refuse(const port::AcquireRequest& request) const;
  EntryPtr find(const std::string& name, port::AcquisitionId id) const;
  Lock& lock_of(const std::string& name);
  void ask_again(const EntryPtr& entry, port::AcquireRequest request, Ask done);
  void begin_wait(const EntryPtr& entry);
  void enter_filter(const EntryPtr& entry);
  void limit_wait(const EntryPtr& entry);
  void on_filter(const EntryPtr& entry, Filter::News news);
  void try_arbiter(const EntryPtr& entry);
  void end_try(Lock& lock, const EntryPtr& entry, const Result<State>& answer);
  void ask_arbiter(const EntryPtr& entry);
  void on_arbiter(const EntryPtr& entry, const Result<State>& answer);
  void on_arbiter_failed(const EntryPtr& entry, const Error& why);
  void became_held(const EntryPtr& entry);
  void next_one(const std::string& name);
  void leave_queue(const EntryPtr& entry);
  void drop(const EntryPtr& entry);
  void on_ended(const EntryPtr& entry, const Result<port::EndStatus>& ended);
  // gate_answers.cc
  void answer(const EntryPtr& entry, const Result<State>& result);
  State waiting(const EntryPtr& entry) const;
  State translated(const Entry& entry, State state) const;
  void note(const std::string& name, const State& state);
  void set_local(port::AcquisitionId id, bool local) HOLDFAST_EXCLUDES(mutex_);
  bool is_dead(const Entry& entry) const { return settings_.now() >= entry.alive_until; }

  port::Loop* const loop_;
  port::Listener* const listener_;
  const Settings settings_;
  port::Store* arbiter_ = nullptr;
  Filter* filter_ = nullptr;
  port::Duration least_ttl_{};  // At the arbiter; max(): a session's.
  port::Alarms alarms_;
  std::map<port::AcquisitionId, EntryPtr> entries_;
  std::map<std::string, Lock> locks_;
  rows::EndedIds ended_{8192};
  std::uint64_t last_issue_ = 0;
  base::Jitter jitter_;
  bool closed_ = false;

  mutable base::LocalMutex mutex_;
  std::set<port::AcquisitionId> local_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::stores::hybrid
