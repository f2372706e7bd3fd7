// Entries and removals: those that wait at the same time go as one transaction
// (src/contend/batch_queue.h).
//
// A transaction of several parts is all or nothing. It is flat, because not every server checks the
// permissions inside nested ones. If a part may be the reason for a refusal, each part is sent
// again alone, and those answers count.
#include <algorithm>
#include <utility>

#include "holdfast/detail/transient.h"
#include "src/stores/etcd/backend.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using base::BootInstant;
using contend::Details;
using contend::Entered;
using contend::Key;
using contend::QueueEntry;
using Kind = PerLockOrder::Kind;

constexpr auto kRemoval = std::chrono::seconds(1);
constexpr auto kBetweenTries = std::chrono::milliseconds(50);

// Whether a single part may be the reason for this refusal.
bool may_concern_one(Errc code) {
  return !detail::is_transient(code) && code != Errc::kLost && code != Errc::kClosed;
}

template <typename Part>
typename contend::BatchQueue<Part>::Call call_of(const Part& part) {
  return {{part}, part->deadline};
}

}  // namespace

struct EtcdBackend::Entry {
  std::uint64_t epoch = 0;
  std::string lock;
  Key key;
  std::string place;  // The key at the server.
  std::string details;
  BootInstant deadline{};
  Done<Entered> done;
  int attempts = kAttempts;
  std::function<void()> finished{};  // Ends its turn in the lock's order.

  void end(const Result<Entered>& result) const {
    finished();
    done(result);
  }
};

struct EtcdBackend::Removal {
  std::uint64_t epoch = 0;
  std::string place;
  std::uint64_t created = 0;
  BootInstant deadline{};
  Done<bool> done;
  bool maybe_removed = false;
  std::function<void()> finished{};

  void end(const Result<bool>& result) const {
    finished();
    done(result);
  }
};

void EtcdBackend::enter(std::uint64_t epoch, std::string lock, Key key, Details details,
                        BootInstant deadline, Done<Entered> done) {
  std::string place = keys_.contenders(lock) + contend::to_text(key);
  auto entry = std::make_shared<Entry>(Entry{epoch, std::move(lock), key, std::move(place),
                                             contend::to_text(details), deadline, std::move(done)});
  order_.run(entry->lock, Kind::kEnter, key.id, [this, entry](std::function<void()> finished) {
    entry->finished = std::move(finished);
    ask(entry);
  });
}

void EtcdBackend::remove(std::uint64_t epoch, std::string lock, QueueEntry place,
                         BootInstant deadline, Done<bool> done) {
  auto removal =
      std::make_shared<Removal>(Removal{epoch, keys_.contenders(lock) + contend::to_text(place.key),
                                        place.order, deadline, std::move(done)});
  order_.run(lock, Kind::kRemove, place.key.id, [this, removal](std::function<void()> finished) {
    removal->finished = std::move(finished);
    ask(removal);
  });
}

// --- Waiting parts.

void EtcdBackend::ask(const EntryPtr& entry) {
  if (!joins()) return send(call_of(entry), /*joined=*/false);
  const std::size_t bytes = 3 * entry->place.size() + entry->details.size();
  entries_.add(entry->lock, entry->deadline, bytes, entry);
  send_soon();
}

// Removals need no number of their own, so those of one lock may share a transaction.
void EtcdBackend::ask(const RemovalPtr& removal) {
  if (!joins()) return send(call_of(removal), /*joined=*/false);
  removals_.add(removal->place, removal->deadline, 2 * removal->place.size(), removal);
  send_soon();
}

// Sends at the end of the loop's turn, so that all requests of this turn share a transaction.
void EtcdBackend::send_soon() {
  if (std::exchange(sending_soon_, true)) return;
  post([this] {
    sending_soon_ = false;
    send_what_may_go();
  });
}

void EtcdBackend::send_what_may_go() {
  const BootInstant now = BootClock::now();
  // Removals go first, because a waiter may wait for just this lock.
  send_all(removals_, now);
  send_all(entries_, now);
}

template <typename Part>
void EtcdBackend::send_all(contend::BatchQueue<Part>& batches, BootInstant now) {
  std::vector<Part> late;
  for (;;) {
    auto call = batches.take(now, late);
    if (call.parts.empty()) break;
    send(std::move(call), /*joined=*/true);
  }
  if (late.empty()) return;
  post([late = std::move(late)] {
    for (const Part& part : late) {
      part->end(Error(Errc::kUnavailable, "etcd: earlier requests were not answered in time"));
    }
  });
}

// --- Entries.

void EtcdBackend::send(Entries::Call call, bool joined) {
  const BootInstant deadline = call.deadline;
  when_settled(deadline, [this, deadline, joined,
                          entries = std::move(call.parts)](const Result<void>& settled) mutable {
    const std::uint64_t epoch = session_->view().epoch;
    const auto guard = session_->guard(epoch);
    // An entry for an ended session must not get onto the next session's lease.
    const auto refused = std::stable_partition(
        entries.begin(), entries.end(),
        [&](const EntryPtr& each) { return settled.has_value() && guard && each->epoch == epoch; });
    for (auto each = refused; each != entries.end(); ++each) {
      post([entry = *each, why = settled ? session_over() : settled.error()] { entry->end(why); });
    }
    entries.erase(refused, entries.end());
    if (entries.empty()) {
      if (joined) entries_.answered(deadline);
      return send_soon();
    }
    wire::TxnRequest txn = transaction_of(entries, *guard);
    rpc_->call(std::move(txn), How{deadline},
               [this, deadline, joined, guard = *guard,
                entries = std::move(entries)](const Result<wire::TxnResponse>& answer) {
                 note(entries.front()->epoch, answer, /*may_have_written=*/true);
                 if (joined) entries_.answered(deadline);
                 // Sends the next batch before it handles this answer: the server is idle.
                 const bool granted = answer && answer->succeeded();
                 if (granted) send_what_may_go();
                 on_entered(entries, guard, answer);
                 if (!granted) send_what_may_go();
               });
  });
}

wire::TxnRequest EtcdBackend::transaction_of(const std::vector<EntryPtr>& entries,
                                             const StoreSession::Guard& guard) const {
  wire::TxnRequest txn;
  add_guard(txn, guard);
  for (const EntryPtr& entry : entries) {
    // The key must not exist yet, so a repeated request creates nothing twice.
    compare_created(txn, entry->place, 0);
    put(txn, entry->place, entry->details, guard.lease);
    *txn.add_success()->mutable_request_range() = folder_request(entry->lock, /*full=*/false);
  }
  // If the key exists already, this listing shows whether an earlier attempt created it.
  if (entries.size() == 1) {
    *txn.add_failure()->mutable_request_range() =
        folder_request(entries.front()->lock, /*full=*/false);
  }
  return txn;
}

contend::Entered EtcdBackend::entered_of(const Entry& entry, const wire::ResponseOp& folder) {
  Entered entered;
  entered.listing = *listing_of(entry.lock, folder.response_range(), /*full=*/false);
  for (const QueueEntry& each : entered.listing.queue) {
    if (each.key == entry.key) entered.created = each.order;
  }
  return entered;
}

void EtcdBackend::on_entered(const std::vector<EntryPtr>& entries, const StoreSession::Guard& guard,
                             const Result<wire::TxnResponse>& answer) {
  const bool several = entries.size() > 1;
  if (!answer) {
    const Errc code = answer.error().code();
    // This server's limit on steps may be lower than etcd's default.
    if (several && code == Errc::kInvalidArgument) entries_.limit_parts(entries.size() / 2);
    for (const EntryPtr& entry : entries) {
      if (several && may_concern_one(code)) {
        send(call_of(entry), /*joined=*/false);
      } else {
        entry->end(answer.error());
      }
    }
    return;
  }
  if (answer->succeeded()) {
    // The answers have the order of the steps: a put and a listing for each entry.
    for (int i = 1; const EntryPtr& entry : entries) {
      entry->end(entered_of(*entry, answer->responses(i)));
      i += 2;
    }
    return;
  }
  if (!several) {
    // An earlier attempt without an answer may have created the key. Then the entry keeps that
    // position.
    Entered there = entered_of(*entries.front(), answer->responses(1));
    if (there.created != 0) return entries.front()->end(std::move(there));
  }
  // No entry was created. The session's key shows whether the session, a fence or a part was the
  // reason.
  const Passed guarded =
      passed(entries.front()->epoch, guard, answer->responses(0).response_range());
  for (const EntryPtr& entry : entries) {
    if (guarded == Passed::kGone) {
      entry->end(session_over());
    } else if (several && guarded == Passed::kYes) {
      send(call_of(entry), /*joined=*/false);
    } else if (--entry->attempts == 0) {
      entry->end(
          Error(Errc::kUnavailable, "etcd: the session changed during each attempt; try again"));
    } else {
      ask(entry);
    }
  }
}

// --- Removals.

// A late removal does no harm, because it names one creation of the key. So a removal is repeated
// without a fence.
void EtcdBackend::send(Removals::Call call, bool joined) {
  const BootInstant until = std::min(call.deadline, BootClock::now() + kRemoval);
  wire::TxnRequest txn;
  for (const RemovalPtr& removal : call.parts) {
    compare_created(txn, removal->place, removal->created);
    txn.add_success()->mutable_request_delete_range()->set_key(removal->place);
  }
  rpc_->call(std::move(txn), How{until},
             [this, joined, call = std::move(call)](const Result<wire::TxnResponse>& answer) {
               note(call.parts.front()->epoch, answer, /*may_have_written=*/false);
               if (joined) removals_.answered(call.deadline);
               const bool done = answer && answer->succeeded();
               if (done) send_what_may_go();
               on_removed(call.parts, answer);
               if (!done) send_what_may_go();
             });
}

void EtcdBackend::on_removed(const std::vector<RemovalPtr>& removals,
                             const Result<wire::TxnResponse>& answer) {
  const bool several = removals.size() > 1;
  const Errc code = answer ? Errc{} : answer.error().code();
  if (several && !answer && code == Errc::kInvalidArgument) {
    removals_.limit_parts(removals.size() / 2);
  }
  const bool each_alone =
      several && (answer ? !answer->succeeded() : may_concern_one(answer.error().code()));
  for (const RemovalPtr& removal : removals) {
    if (each_alone) {
      send(call_of(removal), /*joined=*/false);
    } else if (answer) {
      // After an attempt without an answer, the key may be missing because that attempt was
      // applied.
      removal->end(answer->succeeded() || removal->maybe_removed);
    } else {
      remove_again(removal, answer.error());
    }
  }
}

void EtcdBackend::remove_again(const RemovalPtr& removal, const Error& why) {
  const bool unknown = why.code() == Errc::kOutcomeUnknown;
  const bool again = detail::is_transient(why.code());
  if (!again || BootClock::now() + kBetweenTries >= removal->deadline) {
    if (!removal->maybe_removed) return removal->end(why);
    return removal->end(Error(Errc::kOutcomeUnknown, why.message()));
  }
  removal->maybe_removed = removal->maybe_removed || unknown;
  rpc_->after(kBetweenTries, [this, removal] { post([this, removal] { ask(removal); }); });
}

}  // namespace holdfast::stores::etcd
