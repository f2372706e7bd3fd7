// The locks of one client at the nodes: who tries, who holds, and who waits behind.
//
//   Phase       entered by                            left by
//   kWaiting    acquire(), in this client's queue     its turn: kTrying; dead or cancelled: over
//   kTrying     an attempt at all nodes is under way  held: kHeld; busy or failed: kWaiting or over
//   kHeld       a majority, in time                   release, loss, break, the end of the lease
//
// One acquisition of this client at most tries for a lock, the first one of its queue. Whoever lost
// gives back everywhere at once, and tries again after a random pause, at a hint of the nodes, or
// at the end of the holder's lease.
//
// Guarantee: an attempt that is not held is given back at every node that may have granted it. A
// node that did not answer gets a mark, so that the late request finds it. A grant is told only
// before `ttl` minus both clocks' part has passed since it was asked for.
// Thread-safety: everything on the loop. Ownership: nodes and listener outlive it.
// Time: boot time; tests replace it for the waiters' leases only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/jitter.h"
#include "src/port/alarms.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/rows/ended_ids.h"
#include "src/stores/redlock/nodes.h"
#include "src/stores/redlock/quorum.h"

namespace holdfast::stores::redlock {

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  using BootInstant = base::BootInstant;
  template <typename T>
  using Done = port::Done<T>;
  using States = std::vector<Result<port::AcquisitionState>>;

  Engine(Nodes& nodes, const port::StoreContext& context, TestClock now);

  void acquire(port::AcquireRequest request, Done<port::AcquisitionState> done);
  void renew(const std::vector<port::RenewItem>& items, BootInstant deadline, Done<States> done);
  void keep(const port::KeepRequest& request, Done<bool> done);
  void end(const port::AcquisitionRequest& request, Done<port::EndStatus> done);
  void break_lock(const port::BreakRequest& request, Done<bool> done);
  void inspect(const std::string& name, BootInstant deadline, Done<std::optional<LockInfo>> done);

  bool holds(const std::string& name, machine::AcquisitionId id) {
    const EntryPtr entry = find(name, id);
    return entry != nullptr && entry->phase == Phase::kHeld;
  }
  void hint(std::size_t node, std::string_view key);

  // The answers of the nodes to one request.
  struct Round {
    explicit Round(std::size_t nodes) : words(nodes), left(nodes) {}
    std::vector<std::string> words;  // Each node's answer, for messages.
    std::size_t left;
    bool unknown = false;   // A node may have done what it did not answer.
    bool answered = false;  // The request is decided.

    void take(std::size_t node, const Result<redis::Reply>& reply) {
      words[node] = reply ? reply->text : reply.error().message();
      unknown = unknown || (!reply && reply.error().code() == Errc::kOutcomeUnknown);
      --left;
    }
  };

  // Whatever is under way ends with kClosed: at once, or when the nodes' connections are closed.
  void close();
  bool closed() const { return closed_; }
  // Calls `task` when no release is under way.
  void when_ended(port::Task task);
  void abandon() noexcept { alarms_.abandon(); }

 private:
  enum class Phase : std::uint8_t { kWaiting, kTrying, kHeld };
  using Ask = Done<port::AcquisitionState>;
  // One attempt, also after it was decided: late answers still come.
  struct Try {
    Attempt attempt;
    std::string named{};  // At the nodes: the client's tag, and the number of the attempt.
    std::uint64_t counts_from = 0;  // The heartbeat before it was sent.
    BootInstant sent{};
    BootInstant until{};               // By boot time: for both phases at all nodes.
    bool hurries = false;              // It gives up soon.
    bool unknown = false;              // A node may have carried out what it did not answer.
    bool over = false;                 // A later grant of a node is given back.
    std::vector<std::string> words{};  // Each node's answer, for messages.
    std::optional<port::Duration> free_in{};
    std::optional<Errc> refused{};  // The reason of a node that refused for good.
  };
  using TryPtr = std::shared_ptr<Try>;
  struct Entry {
    port::AcquireRequest request;
    Phase phase = Phase::kWaiting;
    std::uint64_t seq = 0;      // The number of the last heartbeat.
    BootInstant alive_until{};  // While it waits.
    bool queued = false;        // It has been told that it waits.
    bool withdrawn = false;     // While it tried.
    std::vector<Ask> asks{};
    std::vector<Ask> late_asks{};  // They came during the attempt, and want to know what is now.
    std::vector<Done<port::EndStatus>> ends{};
    TryPtr tried{};  // kTrying, kHeld.
    std::uint64_t token = 0;
    port::AcquisitionState state{};  // kHeld: as of the last renewal.
    BootInstant sure_until{};
  };
  using EntryPtr = std::shared_ptr<Entry>;
  struct Lock {
    EntryPtr trying{};
    EntryPtr holder{};
    std::vector<EntryPtr> queue{};  // An empty deque takes 576 bytes.
    BootInstant next_try{};
    std::chrono::microseconds pause{};
    std::uint32_t hints = 0;  // A bit for each node.
    bool listens = false;
    bool idle() const { return !trying && !holder && queue.empty(); }
  };
  using Locks = std::unordered_map<std::string, Lock>;

  std::optional<Error> refuse(const port::AcquireRequest& request) const;
  BootInstant instant() const;
  EntryPtr find(const std::string& name, machine::AcquisitionId id);
  port::AcquisitionState waiting(const Lock& lock, const EntryPtr& entry) const;

  void advance(const std::string& name);
  void start(const std::string& name, Lock& lock);
  void on_taken(const EntryPtr& entry, const TryPtr& tried, std::size_t node,
                const Result<redis::Reply>& reply);
  void vote(Try& tried, std::size_t node, const Result<redis::Reply>& reply);
  void confirm(const EntryPtr& entry, const TryPtr& tried, bool spares);
  void on_confirmed(const EntryPtr& entry, const TryPtr& tried, std::size_t node,
                    const Result<redis::Reply>& reply);
  void confirm_spares();
  void settle(const EntryPtr& entry);
  void give_up_soon(const EntryPtr& entry);
  void on_held(const std::string& name, Lock& lock, const EntryPtr& entry);
  void on_lost(const std::string& name, Lock& lock, const EntryPtr& entry, bool in_time);
  Error failure(const std::string& name, const Try& tried, bool in_time) const;
  void give_back(const Entry& entry, const Try& tried, std::size_t node);
  void put_back(const std::string& name, Lock& lock, const EntryPtr& entry, bool busy);
  void tell_waiting(Lock& lock);
  void listen(const std::string& name, Lock& lock);
  void tidy(const std::string& name);
  static void answer(Entry& entry, const Result<port::AcquisitionState>& result);

  void renew_one(const port::RenewItem& item, bool alone, BootInstant deadline, Ask done);
  void renew_held(const port::RenewItem& item, const EntryPtr& entry, BootInstant deadline,
                  Ask done);
  void release(const std::string& name, machine::AcquisitionId id, const EntryPtr& entry,
               BootInstant deadline, Done<port::EndStatus> done);
  void forget(const std::string& name, const EntryPtr& entry);
  void ask_all(const std::string& name, Nodes::Args words, BootInstant deadline,
               const std::function<bool(std::size_t)>& which,
               std::function<void(std::size_t, const Result<redis::Reply>&)> answered);
  Error no_majority(const std::string& name, const Round& round, const char* what) const;
  void ended_one();

  Nodes& nodes_;
  port::Loop* const loop_;
  port::Listener* const listener_;
  const TestClock now_;
  const std::string tag_;
  port::Alarms alarms_;
  Locks locks_;
  rows::EndedIds ended_{8192};  // Their requests may still arrive.
  std::uint64_t last_attempt_ = 0;
  std::uint64_t last_token_ = 0;  // tokens=no.
  // Nodes that granted are still to be told the token of these attempts.
  std::vector<std::pair<EntryPtr, TryPtr>> spares_;
  std::size_t ends_ = 0;
  port::Task all_ended_{};
  base::Jitter jitter_;
  bool closed_ = false;
};

}  // namespace holdfast::stores::redlock
