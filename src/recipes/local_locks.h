// The locks of one client at a Backend: who holds, who asks the server, and who waits behind.
//
//   Phase       entered by                        left by
//   kFree       nothing of ours is at the server  take(): kTaking
//   kTaking     the first in the queue asks       held: kHeld; busy: kFree; in doubt: kReturning
//   kHeld       the server said yes               release: kReturning; loss: kFree
//   kReturning  a release, or a take in doubt     the server said that it is over: kFree
//
// Guarantee: one acquisition of this client at most is at the server for a key, so that a session
// in which locks are re-entrant holds none twice. Waiters ask in the order in which they came.
// Not guaranteed: an order among clients; the first waiter of each asks again and again.
//
// Thread-safety: everything on the loop. Ownership: the backend and the listener outlive it.
// Time: boot time. Every request is answered by its deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/jitter.h"
#include "src/port/alarms.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/recipes/backend.h"
#include "src/rows/ended_ids.h"

namespace holdfast::recipes {

class LocalLocks : public std::enable_shared_from_this<LocalLocks> {
 public:
  using BootInstant = base::BootInstant;
  template <typename T>
  using Done = port::Done<T>;
  using States = std::vector<Result<port::AcquisitionState>>;

  LocalLocks(Backend& backend, const port::StoreContext& context);

  void acquire(port::AcquireRequest request, Done<port::AcquisitionState> done);
  void renew(const std::vector<port::RenewItem>& items, BootInstant deadline, Done<States> done);
  void end(const port::AcquisitionRequest& request, Done<port::EndStatus> done);
  // kGone, or kUnsupported for what is held.
  Result<port::AcquisitionState> downgrade(const port::AcquisitionRequest& request) const;
  void inspect(const std::string& name, BootInstant deadline, Done<std::optional<LockInfo>> done);
  void lost(const std::vector<machine::AcquisitionId>& ids);
  // The key may be free: whoever is next asks at once.
  void freed(const std::string& key);

  // `done` is called once at most: by then with kOutcomeUnknown.
  template <typename T>
  Done<T> by(BootInstant deadline, Done<T> done);

  // Answers with kClosed whatever is under way.
  void close();
  bool closed() const { return closed_; }
  // Whether the server is still to hear of a release.
  bool returning() const;

 private:
  enum class Phase : std::uint8_t { kFree, kTaking, kHeld, kReturning };
  using Ask = Done<port::AcquisitionState>;
  struct Entry {
    port::AcquireRequest request;
    std::uint64_t seq = 0;
    BootInstant alive_until{};
    bool queued = false;     // It has been told that it waits.
    bool withdrawn = false;  // While the server was asked for it.
    std::vector<Ask> asks{};
    std::vector<Ask> later{};  // Came while the server was asked: its answer may be older.
  };
  using EntryPtr = std::shared_ptr<Entry>;
  struct Lock {
    Phase phase = Phase::kFree;
    EntryPtr ours{};  // kTaking, kHeld, kReturning.
    port::Token token{};
    std::deque<EntryPtr> queue{};
    std::vector<Done<port::EndStatus>> ends{};
    BootInstant next_try{};
    std::chrono::milliseconds pause{};
    bool freed = false;    // While the server was asked.
    bool watched = false;  // The backend knows that somebody waits.
  };
  using Locks = std::unordered_map<std::string, Lock>;

  std::optional<Error> refuse(const port::AcquireRequest& request) const;
  Lock* find(const std::string& name);
  EntryPtr find_waiting(Lock& lock, machine::AcquisitionId id) const;
  Hold hold_of(const std::string& key, const Entry& entry) const;
  port::AcquisitionState held(const Lock& lock) const;
  port::AcquisitionState waiting(const Lock& lock, const Entry& entry) const;

  void advance(const std::string& key);
  void take(const std::string& key, Lock& lock);
  void on_taken(const std::string& key, const Result<Taken>& taken);
  void on_busy(const std::string& key, Lock& lock, const Taken& taken);
  void on_failed(const std::string& key, Lock& lock, const Error& why);
  void answer_waiting(Lock& lock);
  static void answer(Entry& entry, const Result<port::AcquisitionState>& result);
  void watch(const std::string& key, Lock& lock, bool waits);
  void forget(const std::string& key);
  static void answer_ends(Lock& lock, const Result<port::EndStatus>& result);
  void give_back(const std::string& key);
  void on_given_back(const std::string& key, const Result<bool>& given);
  void confirm(std::vector<Hold> holds, std::vector<std::size_t> places,
               const std::vector<port::RenewItem>& items, std::shared_ptr<States> states,
               Done<States> done);

  Backend& backend_;
  port::Loop* const loop_;
  port::Listener* const listener_;
  const port::Duration lease_;
  port::Alarms alarms_;
  Locks locks_;
  std::uint64_t last_token_ = 0;
  rows::EndedIds ended_{8192};
  base::Jitter jitter_;
  bool closed_ = false;
};

template <typename T>
port::Done<T> LocalLocks::by(BootInstant deadline, Done<T> done) {
  struct Once {
    Done<T> done;
    std::optional<port::Alarms::Alarm> alarm{};
  };
  const auto once = std::make_shared<Once>(Once{std::move(done)});
  once->alarm = alarms_.at(deadline, [this, once] {
    once->alarm.reset();
    std::exchange(once->done, nullptr)(
        closed_ ? Error(Errc::kClosed, "the client was closed")
                : Error(Errc::kOutcomeUnknown, "the server has not answered in time"));
  });
  return [once, weak = weak_from_this()](Result<T> result) {
    if (!once->done) return;
    const auto self = weak.lock();
    if (self && once->alarm) self->alarms_.cancel(*std::exchange(once->alarm, std::nullopt));
    std::exchange(once->done, nullptr)(std::move(result));
  };
}

}  // namespace holdfast::recipes
