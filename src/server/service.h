// The lock service behind a front: one shard (shard.h) on the front's loop, its journal on a thread
// of its own.
//
//   request ─ apply in memory ─ batch ─ commit (journal's thread) ─ answers, pushes, effects
//
// Guarantee: what leaves is committed (rule 32). Exempt are a renewal that does not lengthen (33)
// and the release of a committed holder (37); both are answered within the call.
// Not guaranteed: that answers come in the order of the requests. A renewal overtakes a grant that
// is being committed, so a front that must answer in order keeps the renewals of a client on a
// connection of their own (56).
//
// Thread-safety: the loop's thread only; start(), stop() and the destructor also where the loop
// does not run. Callbacks come on that thread.
// Ownership: the loop and the listener outlive it.
// Time: boot time, read in each call, after the front has read the whole request (34).
// Blocking: start() and stop() only.
// Reentrancy: a callback may call the service.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/server/journal/journal.h"
#include "src/server/kept_texts.h"
#include "src/server/requests.h"

namespace asio {
class io_context;
}

namespace holdfast::server {

struct ServiceOptions {
  // The operator says that no client of the journal runs any more, so a copy of it may grant at
  // once (rule 49).
  bool clients_stopped = false;
  // A user's requests are refused (kQueueFull) while so many of the user's bytes are not committed;
  // everybody's while four times as many are. A renewal is only if it lengthens its lease. Without
  // users each client counts as one (rule 56).
  std::size_t user_backlog = std::size_t{4} << 20U;
  // At most so many leases end in one turn of the loop, except those of locks that are asked about.
  // The other clients are served between two turns.
  std::uint32_t ends_per_turn = 1'024;
  // For tests: the boot clock, which may leap from one call to the next. Nothing is a stall then.
  std::function<base::BootInstant()> now{};
  // For tests: by how much the wall clock is ahead of boot time.
  std::function<std::chrono::nanoseconds()> wall_minus_boot{};
  // Operators should know these, once each time that something begins or ends. It is called on the
  // loop's thread and must not block.
  std::function<void(const std::string&)> warn{};
};

class Service {
 public:
  Service(asio::io_context& io, std::unique_ptr<Journal> journal, ServiceListener& listener,
          ServiceOptions options = {});
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Opens the journal, recovers, commits the term's first record. Errors: as Journal::open().
  Result<void> start();
  // The two halves of start(). The first waits for the journal, and may run on any thread while no
  // other one uses the service. The second comes next, on the loop.
  Result<void> recover();
  void begin();
  // After start(): what the journal had.
  struct ServiceStart {
    bool began = false;         // A new journal.
    std::string restored;       // Why it is a copy that was put back; empty: it is not.
    machine::Duration quiet{};  // For so long there are reads only.
    std::size_t locks = 0;
    std::size_t extended = 0;  // Leases that began anew, because the last term ended in a crash.
  };
  const ServiceStart& found() const;
  // After start(). A client compares them (rule 44).
  const std::string& journal_id() const;
  const std::string& term() const;

  // One step each. The list's answers come together, in their order; its requests are applied one
  // after the other, and fail one by one.
  void submit(const Request& request, Done<Answer> done);
  void submit_list(const std::vector<Request>& requests, Done<std::vector<Result<Answer>>> done);
  // All of these Acquires are granted in one step, or nothing happens. nullopt: one lock was not
  // free. Errors: as port::Store::try_acquire_all(); the Answer of a refusal is in `refused`.
  struct AllOrNone {
    std::vector<Answer> granted;    // Empty: nothing happened.
    std::optional<Answer> refused;  // kBusy, kGone, or the reason why it can never be.
    std::size_t refused_index = 0;
  };
  void submit_all(const std::vector<Request>& requests, Done<AllOrNone> done);

  // Reads of committed state. They tell at once of how many tickets: each costs time and memory.
  std::size_t inspect(const std::string& name, Done<LockSight> done);
  // Locks with tickets whose names begin with `prefix` and are above `after`, sorted.
  std::size_t list(const std::string& prefix, const std::string& after, std::size_t limit,
                   Done<std::vector<LockSight>> done);

  // Texts that are kept for good. nullopt: there is none; or its version was another one, and
  // nothing happened. Errors: kInvalidArgument (too long), kUnsupported (there are too many).
  void kept(const std::string& key, Done<std::optional<KeptText>> done);
  void keep(const KeepText& wish, Done<std::optional<std::uint64_t>> done);
  // One step: `change` sees all texts, committed or not, and says what is to be kept. It counts as
  // the user's.
  using Change = std::function<Result<KeepText>(const KeptTexts&)>;
  void change_kept(const std::string& user, const Change& change,
                   Done<std::optional<std::uint64_t>> done);

  // The present, for operators. The disk is looked at four times a second.
  struct State {
    std::size_t holders = 0;
    std::size_t waiters = 0;
    std::size_t uncommitted = 0;  // Bytes.
    bool full = false;            // The journal takes nothing for now: only renewals go on.
    DiskSpace disk{};
    std::uint64_t commits = 0;  // Commits of this term, and their time together.
    std::chrono::nanoseconds commit_time{};
    machine::Duration quiet{};                  // As quiet().
    std::vector<std::uint32_t> quiet_shards{};  // In a sum: those for which it is not zero.
    std::size_t copies = 0;                     // The journal's: port::Journal::copies().
    bool journal_answers = true;                // port::Journal::answers().

    // Adds the state of a shard of this server. All their journals are in the same place.
    void add(const State& other, std::uint32_t number);
  };
  State state() const;
  // A restored copy grants nothing for so long from now on; zero: it is none.
  machine::Duration quiet() const;

  // No client of that name is connected any more: its pushes are dropped. Tickets run out.
  void forget_client(const ClientName& client);

  // Expires with this object: for a call to it that may come too late.
  std::weak_ptr<const void> life() const { return impl_; }

  // Commits and answers the requests under way, writes the leases as they are, so that the next
  // start extends none, and closes the journal. Later requests fail.
  void stop() { static_cast<void>(stop_and_keep_journal()); }
  // As stop(), but the journal is closed when the caller lets go of it, perhaps on another thread:
  // that waits for the network where the journal is there.
  std::unique_ptr<Journal> stop_and_keep_journal();

 private:
  struct Impl;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::server
