// The interface that the engine of contenders (engine.h) needs of a consensus store: ZooKeeper,
// etcd, Consul.
//
// A lock is a folder of contenders. A contender belongs to the session of one client and goes with
// it; the store numbers its creation. Who holds is a pure function of the folder (queue.h). Beside
// the contenders a folder has two slots, which belong to nobody: the lock's record and its value.
//
// The engine calls everything here on the loop, but for what says otherwise. Every operation
// completes exactly once, by a task posted to the loop; never inline, never after close(). What the
// client library calls back on a thread of its own reaches the engine by such tasks only.
//
// Order: operations of one session about one folder take effect in the order in which they were
// asked for; after a lost connection, a request that was sent before it is not applied behind the
// answer of one that was sent after it. (ZooKeeper: one connection, and the leader refuses the old
// one. etcd: a request whose outcome is unknown is followed up by a read before the next is sent.)
//
// Errors, the same for all operations: kUnavailable (surely not applied, and never will be),
// kOutcomeUnknown (the engine looks again), kLost (`epoch` is not the session that runs now:
// nothing was applied, and what was created under that epoch is gone or going), kPermissionDenied,
// kCorruptState, kVersionMismatch, kClosed. Messages name the store and the advice, never
// credentials, and not the lock (naming.h).
//
// Ownership: the engine owns the backend, and drops its callbacks when it goes; `Events` outlives
// the backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/contend/queue.h"
#include "src/contend/servers.h"
#include "src/machine/types.h"
#include "src/port/store.h"

namespace holdfast::contend {

// The one store session of this client: all its contenders, in all locks, live by it.
struct SessionView {
  std::uint64_t epoch = 0;     // 0: there is none yet. Grows with every new session.
  bool in_doubt = false;       // Keepalives fail, or are late: it is asked for all the same.
  machine::Duration length{};  // As the store agreed to it.
  // Before this instant nobody else can hold what a contender of this session holds. Counted from
  // the send of what the store confirmed last (ZooKeeper: safety rule 21), over `length`; without
  // the margin for clock rates, which the session layer takes off. Never moves back in an epoch.
  base::BootInstant deadline{};
  // When the next confirmation is due, and with it a later deadline. Not set: it is not known.
  std::optional<base::BootInstant> more_at{};
};

// Events that nobody asked for. Called on the loop.
class Events {
 public:
  virtual ~Events() = default;
  // The session has ended, at the store or by its deadline: all its contenders are void. Told once
  // per epoch. The backend opens another by itself, under a new epoch.
  virtual void on_session_ended(std::uint64_t epoch, const Error& why) = 0;
  // Somebody called Backend::notify(): a contender of ours may have been taken away.
  virtual void on_notify() = 0;
  // A line for the log, for the operator.
  virtual void on_alarm(const std::string& line) = 0;
};

// Wanted by whoever reads with one: called on the loop, once at most, soon after what was read has
// changed; also when that is not sure (a watch that was lost). The backend keeps a weak pointer: a
// waker that is gone is not called, and its watch at the store may be ended.
struct Waker {
  std::function<void()> wake;
  // Called instead by read()'s, where the store can tell it: the contender has gone, and told by
  // its last step that it held, under this token (Backend::handoff). Not set: `wake` is called.
  std::function<void(const machine::Token& last)> handed_off{};
};
using WakerPtr = std::shared_ptr<Waker>;  // nullptr: nothing is to be watched.

// Keys where locks are kept that no lock of this version has: of a later one, or of a mistake.
struct Unknown {
  std::size_t count = 0;
  std::string one;  // One of them, in full, as the store has it.

  void add(std::string_view key) {
    if (count++ == 0) one = key;
  }
  void add(const Unknown& others) {
    if (count == 0) one = others.one;
    count += others.count;
  }
};

// A folder, as of one instant of the store.
struct Listing {
  std::vector<QueueEntry> queue;  // By order. Keys that are not contenders are left out.
  std::uint64_t record_rev = 0;   // The last write to the record; 0: never written.
  std::optional<Record> record;   // Where the same answer brings it; else read_record() does.
  bool in_full = false;           // Every QueueEntry has its `details`.
  Unknown unknown{};              // In full only: what was left out.
  // Others contend for the lock and would not exclude those here: no ticket may stay in the queue.
  std::optional<Error> refusal{};
};

// Folders of locks.
struct Locks {
  std::vector<std::string> names;  // Locks that may be in use, sorted; some have no contender.
  Unknown unknown{};               // Keys that are no folder of a lock.
};

struct Entered {
  std::uint64_t created =
      0;            // The number of the creation: QueueEntry::order may be another number.
  Listing listing;  // Taken at or after the creation; has the new contender.
};

// A contender's details with their numbers.
struct Read {
  Details details;
  std::uint64_t created = 0;
  std::uint64_t modified = 0;
};

// A value beside the lock, of at most 4 KiB.
struct Value {
  std::string bytes;
  std::uint64_t revision = 0;  // 0: never written.
};

// One step of the store: all of it, if what it expects is so; or nothing.
struct Change {
  std::string lock;
  std::uint64_t epoch = 0;                  // The session that asks.
  std::optional<std::uint64_t> record_rev;  // Expected; as Listing::record_rev.
  std::optional<Record> record;             // To be written.
  std::optional<QueueEntry> present;        // A contender that must be there.
  std::optional<std::uint64_t> value_rev;   // Expected; as Value::revision.
  std::optional<std::string> value;         // To be written.
  // Contenders, of anybody (of another program's: as the last listing in full had them); each must
  // be there, and be the one that was seen.
  std::vector<QueueEntry> removed;
};

// The outcome of a try to pass a lock's gate (Backend::gated).
struct Gate {
  std::optional<Read> passed;                 // The contender, marked.
  std::optional<machine::Duration> opens_in;  // Not passed: not before, where that is known.
};

class Backend {
 public:
  template <typename T>
  using Done = port::Done<T>;

  virtual ~Backend() = default;

  // Called once, before anything else. The session is opened now or with the first operation; an
  // operation that comes before it waits for it, until its own deadline.
  virtual void start(Events* events) = 0;

  virtual SessionView session() const = 0;

  // Has no session yet, or one that ended: opens one. What enter() needs its epoch from.
  virtual void ensure_session(base::BootInstant deadline, Done<SessionView> done) = 0;

  // Creates a contender, and lists the folder behind that. The folder is made where there is none.
  // Not repeated by the backend: after kOutcomeUnknown the engine lists, and looks for its key.
  // (Where creating is idempotent by key, entering again is the same as finding it.)
  virtual void enter(std::uint64_t epoch, std::string lock, Key key, Details details,
                     base::BootInstant deadline, Done<Entered> done) = 0;

  // `latest`: sees everything that was confirmed before the call, to whomever. Otherwise everything
  // that this client was told, or has seen, before. The waker is for changes of the queue: a
  // contender that came or went. Of no folder: an empty listing.
  virtual void list(std::string lock, bool latest, WakerPtr waker, base::BootInstant deadline,
                    Done<Listing> done) = 0;

  // The same, with the details of all: for people. As of one instant as far as the store can.
  virtual void list_in_full(std::string lock, base::BootInstant deadline, Done<Listing> done) = 0;

  // One contender; nullopt: it is not there. The waker is for its change and its end; also set
  // where the contender is not there, and then called at once or never.
  virtual void read(std::string lock, QueueEntry place, WakerPtr waker, base::BootInstant deadline,
                    Done<std::optional<Read>> done) = 0;

  // Writes the details of an own contender; nullopt: it is not there. `rewrites`: it can be asked
  // for (in another library's folder perhaps not). Constant.
  virtual bool rewrites() const { return true; }
  virtual void write(std::uint64_t epoch, std::string lock, QueueEntry place, Details details,
                     base::BootInstant deadline, Done<std::optional<Read>> done) = 0;

  // Ends an own contender; false: it was not there. Applied once at most, and harmless if late.
  virtual void remove(std::uint64_t epoch, std::string lock, QueueEntry place,
                      base::BootInstant deadline, Done<bool> done) = 0;

  // The same of one that waited, and has held alone from its grant on: whoever watches it need not
  // look whether somebody is left before it. Stores that can tell that in one step do.
  virtual void handoff(std::uint64_t epoch, std::string lock, QueueEntry place,
                       const machine::Token& held_with, base::BootInstant deadline,
                       Done<bool> done) {
    static_cast<void>(held_with);
    remove(epoch, std::move(lock), std::move(place), deadline, std::move(done));
  }

  // Whether the store goes on looking at names that have gone whenever a folder is listed. Then a
  // client's contenders have the same few names again and again, where each has its own otherwise:
  // a QueueEntry is its name with its `order`, and what has the name and another order is not it.
  virtual bool remembers_names() const { return false; }

  // Whether something may stand beside the contenders: not in another library's folder (?recipe=),
  // where a Change removes contenders and does nothing else. Constant.
  virtual bool keeps_record() const { return true; }

  // Whether clients of another kind take part (?recipe=), who do not stand in the queue: then a
  // contender that the queue admits must pass a gate, too, and is marked by that. Constant.
  virtual bool gated() const { return false; }
  // Not passed: the waker is called when it may be tried again.
  // NOLINTBEGIN(performance-unnecessary-value-param): the signature is that of who has a gate.
  virtual void pass_gate(std::uint64_t epoch, std::string lock, QueueEntry place, Details details,
                         WakerPtr waker, base::BootInstant deadline, Done<Gate> done) {
    static_cast<void>(epoch), static_cast<void>(lock), static_cast<void>(place);
    static_cast<void>(details), static_cast<void>(waker), static_cast<void>(deadline);
    static_cast<void>(done);
  }
  // NOLINTEND(performance-unnecessary-value-param)

  virtual void read_record(std::string lock, base::BootInstant deadline,
                           Done<std::pair<Record, std::uint64_t>> done) = 0;
  virtual void read_value(std::string lock, base::BootInstant deadline, Done<Value> done) = 0;

  // The number of the step, the same as the revision of what it wrote; nullopt: something was not
  // as expected, and nothing was done.
  virtual void apply(Change change, base::BootInstant deadline,
                     Done<std::optional<std::uint64_t>> done) = 0;

  // Tells the client with that session to look whether all its contenders are there. At best.
  // `then`: once the store has it, or it has failed; some seconds later at most.
  virtual void notify(std::string session_tag, std::function<void()> then) = 0;
  // The address for notify(), kept in the details of every contender.
  virtual std::string session_tag() const = 0;

  // Those whose names begin so; at most `limit`.
  virtual void list_locks(std::string prefix, std::size_t limit, base::BootInstant deadline,
                          Done<Locks> done) = 0;

  // The store's own part; the engine adds what it gives by itself (fair, modes, tokens).
  // From any thread.
  virtual Guarantees guarantees() const = 0;
  // Asks the servers what they are, once. kUnavailable: none of them answers.
  virtual void look_at_servers(base::BootInstant deadline, Done<Servers> done) = 0;
  virtual void probe(base::BootInstant deadline, Done<std::vector<Finding>> done) = 0;

  // Ends the session at the store, which ends all its contenders, and every operation under way
  // (kClosed). From a thread that is not the loop.
  virtual void close(base::BootInstant deadline) = 0;
  virtual void abandon_after_fork() noexcept = 0;
};

}  // namespace holdfast::contend
