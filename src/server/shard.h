// One shard: the lock machine, the changes that are not committed yet, and the clients to tell
// afterwards. It has no clock, no thread and no I/O: the service (service.h) drives it, and the
// tests do so in simulated time.
//
//   batch       while it fills                  under way                 committed
//   answers     wait in it                      wait                      leave, with its pushes
//   exempt      leave within the call: rule 33, rule 37
//
// Guarantee: what leaves tells committed state only (rule 32). A batch holds whole steps: all
// effects of a request, of its finishing Ticks, and of a submit_all() (46). A refused request
// changed nothing.
// Not guaranteed: the order of answers (service.h).
//
// Thread-safety: one thread. Reentrancy: callbacks may call submit and its kin.
// Time: boot time in microseconds, in each call; the axis (axis.h) makes the machine's of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/server/axis.h"
#include "src/server/id_set.h"
#include "src/server/kept_texts.h"
#include "src/server/marks.h"
#include "src/server/record.h"
#include "src/server/recovery.h"
#include "src/server/requests.h"
#include "src/server/service.h"
#include "src/server/traces.h"

namespace holdfast::server {

class Shard {
 public:
  // `boot`: the present. The first batch holds the term's token floor (48). Nothing is answered
  // before it is committed. `quiet`: for so long there are reads only, and the axis stands still
  // (rule 49).
  Shard(Recovered recovered, machine::Instant boot, ServiceListener& listener,
        const ServiceOptions& options, machine::Duration quiet = {});

  // As Service's. `done` is called within the call, or by committed() or fail().
  void submit(machine::Instant boot, const Request& request, Done<Answer> done);
  void submit_all(machine::Instant boot, const std::vector<Request>& requests,
                  Done<Service::AllOrNone> done);
  std::size_t inspect(machine::Instant boot, const std::string& name, Done<LockSight> done);
  std::size_t list(machine::Instant boot, const std::string& prefix, const std::string& after,
                   std::size_t limit, Done<std::vector<LockSight>> done);
  // Kept texts, as Service's.
  void keep(machine::Instant boot, const KeepText& wish, Done<std::optional<std::uint64_t>> done);
  void change_kept(machine::Instant boot, const std::string& user, const Service::Change& change,
                   Done<std::optional<std::uint64_t>> done);
  void kept(machine::Instant boot, const std::string& key, Done<std::optional<KeptText>> done);
  void forget_client(const ClientName& client);

  // Lets what is due expire, up to ServiceOptions::ends_per_turn; next_tick() is the present then.
  // Requests end what a tick has left of that number, and everything of their own locks. So no
  // answer waits for the rest, and while few leases end at once, each step ends all that are over.
  void tick(machine::Instant boot);
  // The boot time at which tick() should be called; nullopt: not before the next request.
  std::optional<machine::Instant> next_tick() const;

  // Boot time may have stood still, as it does in a paused virtual machine: nothing is answered
  // from memory until a batch that begins now is committed (34).
  void doubt_time();

  // The deadline of leadership (34): from that boot time on, another server may lead. Every answer
  // then waits for a commit that begins after its request was read; the journal refuses it if
  // another one does lead. Never called: this process is the only one.
  void lead_until(machine::Instant boot) { leads_until_ = boot; }

  // From now on a renewal is answered after a commit that begins after it was read. A paused
  // virtual machine, whose clock stands still, then answers nothing either.
  void confirm_renewals() { confirms_ = true; }
  // The commit under way takes long: until one ends, the deadline of leadership alone decides.
  void trust_deadline(machine::Instant boot);

  struct Outbound {
    std::uint64_t number = 0;
    std::string bytes;  // Empty: there is nothing to write, but a commit is waited for.

    // Completes the bytes, once. The journal's thread does it, because the loop has enough to do.
    void add_checksum() {
      if (!bytes.empty()) server::add_checksum(bytes);
    }
  };
  // The next batch to be committed, if none is under way and there is something. The caller adds
  // the checksum, commits, and answers by committed() or fail().
  std::optional<Outbound> take_batch();
  // Whether take_batch() would have bytes.
  bool has_bytes() const { return !filling_.writer.empty(); }
  // A batch without bytes may wait until more answers share it.
  bool hurries() const { return filling_.hurries; }
  // The answers that wait for that batch.
  std::size_t waiting_answers() const { return filling_.waiting.size(); }
  // Nobody waits for it: it holds releases that are answered already, and no grant. Whoever comes
  // next may share its commit.
  bool has_time() const;
  void committed();
  // The batches of an orderly end, one after the other, as take_batch()'s (rule 43): the leases as
  // they are in memory, so that the next start extends nothing. From the first one on, nothing is
  // answered from memory.
  std::optional<Outbound> take_closing_batch(machine::Instant boot);
  // The batch under way cannot be committed for now: new requests are refused, but for renewals. A
  // read or a renewal fails at once if what it tells is not committed.
  void set_full(bool full);
  // While it is full, reads wait for a proof of the lead: a write beside the batch under way, which
  // takes no room. True: one that begins from now on is wanted, and proved() tells its outcome.
  bool take_proof();
  void proved(bool leads);
  // For good: nothing is answered any more. `unknown`: the batch under way may be committed.
  void fail(const Error& reason, bool unknown);

  bool idle() const { return !under_way_ && !wants_commit(); }
  std::size_t backlog() const { return backlog_; }
  // Committed ones (rule 32).
  std::size_t holders() const { return holders_; }
  std::size_t waiters() const { return waiting_ids_.size(); }
  const machine::LockMachine& machine() const { return machine_; }

 private:
  // Bytes of the requests of a user, or of a client without one, that are not committed.
  using Backlog = std::shared_ptr<std::size_t>;
  struct Client {
    ClientName name;
    Backlog backlog = std::make_shared<std::size_t>(0);
    bool known = true;
  };
  using ClientPtr = std::shared_ptr<Client>;
  // An answer that waits. nullptr: committed. Otherwise the error.
  using Waiting = std::function<void(const Error*)>;

  struct Later {
    std::size_t after = 0;  // So many changes of its batch.
    Waiting answer;
    bool fails_when_full = false;
    bool renewal = false;  // The deadline of leadership would do.
  };

  struct HashOfId {
    std::size_t operator()(const machine::AcquisitionId& id) const {
      return static_cast<std::size_t>(id.low ^ (id.high * 0x9E37'79B9'7F4A'7C15U));
    }
  };
  struct Change {
    machine::Effect effect;
    machine::Instant at{};
    ClientPtr push_to;
  };
  struct Batch {
    Batch(std::uint64_t its_number, std::uint64_t its_turn)
        : number(its_number), turn(its_turn), writer({RecordKind::kBatch, its_number, 0}) {}

    std::uint64_t number;   // In the journal.
    std::uint64_t turn;     // Counts all commits, those of nothing, too.
    bool confirms = false;  // Somebody waits for it, whatever is in it.
    bool hurries = false;   // Without delay.
    bool pushes = false;    // Another client is told of a change in it.
    RecordWriter writer;
    std::vector<Change> told;
    std::vector<Later> waiting;
    // The acquisitions that it changes, and the hashes of its locks and kept texts: where two names
    // share one, an answer waits for a commit that it did not need.
    IdSet ids;
    IdSet names;
    // The bytes of each user's or client's requests. One may be here more than once.
    std::vector<std::pair<Backlog, std::size_t>> bytes;
  };

  // Why the request is not applied; nullopt: it is.
  std::optional<Error> refuse(machine::Instant boot, const Request& request);
  std::optional<Error> refuse_for_room(const Request& request);
  bool lengthens(const machine::Renew& renewal) const;
  std::optional<machine::Reply> refuse_late(const Request& request);
  bool asks_otherwise(const Request& request) const;
  Answer apply(const Request& request);
  machine::Reply perform(const Request& request);
  machine::Reply step(const machine::Action& action, const machine::AcquisitionId& own);
  machine::Reply renew(const machine::Renew& renew);
  machine::Duration recorded_lease(const machine::Effect& effect) const;
  void note_lease(const machine::Effect& effect);
  void count(const machine::Effect& effect);
  void note(machine::Effect& effect, const machine::AcquisitionId& own);
  void note_mark(const Request& request, const machine::Reply& reply);
  Answer complete(const Request& request, const machine::Reply& reply);
  bool may_leave(const Request& request, const Answer& answer, bool was_clean) const;
  static machine::AcquisitionId place_of_name(std::string_view name);
  bool clean(const machine::AcquisitionId& id) const;
  bool clean(std::string_view name) const;
  // A read of committed state, for which `name` stands.
  template <typename T>
  void answer_read(const std::string& name, Done<T> done, T answer);
  void put_kept(const std::string& user, const KeepText& wish,
                Done<std::optional<std::uint64_t>> done);
  template <typename T>
  void answer_while_full(Done<T> done, T answer, bool needs_proof);
  LockSight look(const std::string& name) const;
  static Error uncommitted(std::string_view name);
  const ClientPtr& client(const ClientName& name);
  void drop_idle_clients();
  void advance(machine::Instant boot);
  void end_due(std::string_view lock);
  void look_at_deadline(machine::Instant boot);
  const Backlog& backlog_of(const std::string& user, const ClientName& client);
  void charge(const Backlog& backlog, std::size_t bytes_before);

  // The answer waits for all steps so far.
  template <typename T>
  void answer_when_committed(Done<T> done, T answer, bool fails_when_full = false);
  template <typename T>
  static Waiting waiting_for(Done<T> done, T answer);
  void wait_for_commit(Waiting waiting, bool fails_when_full);
  // The waiting answers of one kind, of all batches. The caller calls them afterwards, because a
  // callback may ask anew.
  std::vector<Waiting> take_waiting(bool Later::*which);
  bool wants_commit() const;
  void deliver(Batch batch);

  ServiceListener& listener_;
  const ServiceOptions options_;
  machine::LockMachine machine_;
  Axis axis_;
  machine::Instant now_;
  Marks marks_;
  BreakTraces traces_;
  KeptTexts kept_;
  std::unordered_map<machine::AcquisitionId, ClientPtr, HashOfId> routes_;
  std::unordered_map<ClientName, ClientPtr> clients_;
  static constexpr std::size_t kManyClients = 16'384;
  std::size_t next_sweep_ = kManyClients;  // With so many of them.
  // The one that asked last, because a request looks for its client several times.
  ClientPtr last_client_;
  // The users who have asked since the start: at most as many as the users' file has had.
  std::unordered_map<std::string, Backlog> users_;
  // Acquisitions whose lease the recovery extended, until a request of this term sets its end.
  IdSet extended_;
  // Leases in the journal that are longer than the length of their tickets.
  std::unordered_map<machine::AcquisitionId, machine::Duration, HashOfId> long_leases_;
  Batch filling_;
  std::optional<Batch> under_way_;
  std::size_t backlog_ = 0;
  std::size_t holders_ = 0;
  std::unordered_set<machine::AcquisitionId, HashOfId> waiting_ids_;
  // The number of leases of other locks that requests may still end before the next tick.
  std::uint32_t ends_left_;
  // Memory answers nothing until this turn is committed.
  std::uint64_t sure_after_ = 1;
  std::uint64_t committed_ = 0;
  bool confirms_ = false;
  bool trusts_deadline_ = false;
  machine::Instant quiet_until_;  // Boot time.
  // The names that the orderly end has still to write.
  std::optional<std::vector<std::string>> closing_;
  machine::Instant leads_until_ = machine::Instant::max();
  bool full_ = false;
  std::vector<Waiting> unproven_;      // Reads, while it is full.
  std::vector<Waiting> being_proven_;  // By the write that take_proof() asked for.
  std::optional<Error> failed_;
  machine::Effects effects_;
};

template <typename T>
Shard::Waiting Shard::waiting_for(Done<T> done, T answer) {
  return [done = std::move(done), answer = std::move(answer)](const Error* failed) mutable {
    if (failed != nullptr) return done(*failed);
    done(std::move(answer));
  };
}

template <typename T>
void Shard::answer_when_committed(Done<T> done, T answer, bool fails_when_full) {
  wait_for_commit(waiting_for(std::move(done), std::move(answer)), fails_when_full);
}

}  // namespace holdfast::server
