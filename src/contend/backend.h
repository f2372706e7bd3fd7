// The interface that the engine of contenders (engine.h) needs of a consensus store: ZooKeeper,
// etcd, Consul.
//
// A lock is a folder of contenders. A contender belongs to the store session of one client and ends
// with it; the store numbers its creation. A pure function of the folder decides who holds
// (queue.h). Besides the contenders a folder has two slots without an owner: the lock's record and
// its value.
//
// The engine calls everything here on the loop, unless a comment says otherwise. Every operation
// completes exactly once, by a task posted to the loop; never inline, never after close().
// Callbacks of the client library on its own threads reach the engine only by such tasks.
//
// Order: operations of one session about one folder take effect in the order of the calls, except
// that the removal of one contender may overtake the entries of others. After a lost connection, no
// request from before it is applied after the answer to a later one. (ZooKeeper: one connection,
// and the leader refuses the old one. etcd: a request whose outcome is unknown is followed up by a
// read before the next is sent.)
//
// Errors, the same for all operations: kUnavailable (surely not applied, and never will be),
// kOutcomeUnknown (the engine looks again), kLost (`epoch` is not the current session: nothing was
// applied, and its contenders are gone or will be), kPermissionDenied, kCorruptState,
// kVersionMismatch, kClosed. Messages name the store and what to do, never credentials, and not the
// lock (naming.h).
//
// Ownership: the engine owns the backend, and drops its callbacks when it is destroyed; `Events`
// outlives the backend.
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

// The one store session of this client, on which all its contenders in all locks depend.
struct SessionView {
  std::uint64_t epoch = 0;     // 0 before the first one. Grows with every new session.
  bool in_doubt = false;       // Keepalives fail, or are late. Requests still use the session.
  machine::Duration length{};  // The length that the store granted.
  // Before this instant nobody else can hold a lock that a contender of this session holds. It is
  // `length` after the send of the last confirmed request (ZooKeeper: safety rule 21). The session
  // layer subtracts the margin for clock rates. It never moves back in an epoch.
  base::BootInstant deadline{};
  // When the next confirmation is due, which brings a later deadline. Not set if unknown.
  std::optional<base::BootInstant> more_at{};
};

// Unrequested events. Called on the loop.
class Events {
 public:
  virtual ~Events() = default;
  // The session has ended, at the store or by its deadline, and all its contenders are void. Called
  // once per epoch. The backend then opens another session by itself, under a new epoch.
  virtual void on_session_ended(std::uint64_t epoch, const Error& why) = 0;
  // Somebody called Backend::notify(): a contender of ours may have been taken away.
  virtual void on_notify() = 0;
  // A line for the log, for the operator.
  virtual void on_alarm(const std::string& line) = 0;
};

// A reader passes a waker to hear of a change. It is called on the loop, at most once, soon after
// the read data changed or may have changed (a lost watch). The backend keeps a weak pointer. If
// the waker is gone it is not called, and its watch at the store may be ended.
struct Waker {
  std::function<void()> wake;
  // Called instead for read(), if the store supports it: the contender is gone, and its last step
  // said that it held under this token (Backend::handoff). If not set, `wake` is called.
  std::function<void(const machine::Token& last)> handed_off{};
};
using WakerPtr = std::shared_ptr<Waker>;  // nullptr: no watch.

// Keys among those of locks that this version does not know: a later version's, or a mistake.
struct Unknown {
  std::size_t count = 0;
  std::string one;  // One of them, as the store has it.

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
  std::vector<QueueEntry> queue;  // Sorted by order, without keys that are not contenders.
  std::uint64_t record_rev = 0;   // The last write to the record; 0: never written.
  std::optional<Record> record;   // If this answer has it; read_record() reads it otherwise.
  bool in_full = false;           // Every QueueEntry has its `details`.
  Unknown unknown{};              // In full only: the unknown keys.
  // Clients of another kind contend for the lock, and would not exclude ours: no contender may stay
  // in the queue.
  std::optional<Error> refusal{};
};

// Folders of locks.
struct Locks {
  std::vector<std::string> names;  // Locks that may be in use, sorted; some have no contender.
  Unknown unknown{};               // Keys that are not a lock's folder.
};

struct Entered {
  // The number of the creation; QueueEntry::order may be another number.
  std::uint64_t created = 0;
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

// One atomic step of the store: everything happens if all expectations hold, and nothing otherwise.
struct Change {
  std::string lock;
  std::uint64_t epoch = 0;                  // The asking session.
  std::optional<std::uint64_t> record_rev;  // Expected; as Listing::record_rev.
  std::optional<Record> record;             // To be written.
  std::optional<QueueEntry> present;        // A contender that must be there.
  std::optional<std::uint64_t> value_rev;   // Expected; as Value::revision.
  std::optional<std::string> value;         // To be written.
  // Anybody's contenders (another program's as in the last listing in full). Each must still exist,
  // and be the one that was seen.
  std::vector<QueueEntry> removed;
};

// Gives a contender that holds a lease of its own, of `details.kept->ttl`, in place of the session
// or of the lease that it has.
struct Keep {
  std::string lock;
  QueueEntry place;  // With `modified`, which it must still have; 0: that of its creation.
  Details details;   // To be written. `kept->lease` and `->created` are those of before.
  std::optional<std::string> value;  // To be written in the same step.
};

// The outcome of a try to pass a lock's gate (Backend::gated).
struct Gate {
  std::optional<Read> passed;                 // The contender, marked.
  std::optional<machine::Duration> opens_in;  // If not passed, when to try again, if known.
};

class Backend {
 public:
  template <typename T>
  using Done = port::Done<T>;

  virtual ~Backend() = default;

  // Called once, before anything else. The session is opened now or by the first operation.
  // Operations wait for it until their own deadlines.
  virtual void start(Events* events) = 0;

  virtual SessionView session() const = 0;

  // Opens a session if there is none. enter() needs its epoch.
  virtual void ensure_session(base::BootInstant deadline, Done<SessionView> done) = 0;

  // Creates a contender, then lists the folder. Creates the folder if it is missing. The backend
  // does not repeat the request: after kOutcomeUnknown the engine lists, and looks for its key. (If
  // the store creates idempotently by key, entering again finds the contender.)
  virtual void enter(std::uint64_t epoch, std::string lock, Key key, Details details,
                     base::BootInstant deadline, Done<Entered> done) = 0;

  // `latest`: shows everything that was confirmed to anybody before the call; otherwise everything
  // that this client has seen before. The waker is for changes of the queue: a contender came or
  // went. A missing folder gives an empty listing.
  virtual void list(std::string lock, bool latest, WakerPtr waker, base::BootInstant deadline,
                    Done<Listing> done) = 0;

  // The same with all details, for people. It shows one instant if the store supports that.
  virtual void list_in_full(std::string lock, base::BootInstant deadline, Done<Listing> done) = 0;

  // Reads one contender; nullopt if it does not exist. The waker is for its change and its end. For
  // a missing contender it is called at once or never.
  virtual void read(std::string lock, QueueEntry place, WakerPtr waker, base::BootInstant deadline,
                    Done<std::optional<Read>> done) = 0;

  // Writes the details of an own contender; nullopt if it does not exist. `rewrites` says whether
  // this is supported, which it may not be in another library's folder. Constant.
  virtual bool rewrites() const { return true; }
  virtual void write(std::uint64_t epoch, std::string lock, QueueEntry place, Details details,
                     base::BootInstant deadline, Done<std::optional<Read>> done) = 0;

  // Removes an own contender; false if it did not exist. Applied at most once, and harmless if
  // late.
  virtual void remove(std::uint64_t epoch, std::string lock, QueueEntry place,
                      base::BootInstant deadline, Done<bool> done) = 0;

  // The same for a contender that waited and has held alone since its grant. Then the waiter that
  // watches it is first, and need not list. Only some stores can report this in one step.
  virtual void handoff(std::uint64_t epoch, std::string lock, QueueEntry place,
                       const machine::Token& held_with, base::BootInstant deadline,
                       Done<bool> done) {
    static_cast<void>(held_with);
    remove(epoch, std::move(lock), std::move(place), deadline, std::move(done));
  }

  // Whether listings get slower with every removed name. Then a client reuses a few names for its
  // contenders instead of giving each its own. A QueueEntry is its name together with its `order`:
  // the same name with another order is another contender.
  virtual bool remembers_names() const { return false; }

  // Whether a folder has a record and a value. Another library's folder (?recipe=) has none, and
  // there a Change only removes contenders. Constant.
  virtual bool keeps_record() const { return true; }

  // Whether clients of another kind use the lock without an entry in the queue (?recipe=). Then an
  // admitted contender must also pass a gate, which marks it. Constant.
  virtual bool gated() const { return false; }
  // If not passed, the waker is called when another try may succeed.
  // NOLINTBEGIN(performance-unnecessary-value-param): backends with a gate need this signature.
  virtual void pass_gate(std::uint64_t epoch, std::string lock, QueueEntry place, Details details,
                         WakerPtr waker, base::BootInstant deadline, Done<Gate> done) {
    static_cast<void>(epoch), static_cast<void>(lock), static_cast<void>(place);
    static_cast<void>(details), static_cast<void>(waker), static_cast<void>(deadline);
    static_cast<void>(done);
  }

  // Whether a contender can be kept by a lease of its own, without its client. Constant.
  virtual bool keeps() const { return false; }
  virtual bool keeps_permits() const { return keeps(); }
  // nullopt if the contender is gone, or was written since. From then on writes of the session that
  // it belonged to are refused. The time counts from a moment after the call.
  virtual void keep(std::uint64_t epoch, Keep what, base::BootInstant deadline,
                    Done<std::optional<Read>> done) {
    static_cast<void>(epoch), static_cast<void>(what), static_cast<void>(deadline);
    static_cast<void>(done);
  }
  // Ends the lease of a kept contender that was removed (Kept::lease). Otherwise it would stay at
  // the servers for the rest of its time.
  virtual void end_kept_lease(const std::string& lease) { static_cast<void>(lease); }
  // Removes a kept contender whose time is over (Details::over), if it was not written since.
  virtual void drop(std::string lock, QueueEntry place, base::BootInstant deadline,
                    Done<bool> done) {
    static_cast<void>(lock), static_cast<void>(place), static_cast<void>(deadline);
    static_cast<void>(done);
  }
  // NOLINTEND(performance-unnecessary-value-param)

  virtual void read_record(std::string lock, base::BootInstant deadline,
                           Done<std::pair<Record, std::uint64_t>> done) = 0;
  virtual void read_value(std::string lock, base::BootInstant deadline, Done<Value> done) = 0;

  // Returns the number of the step, which is the revision of everything it wrote; nullopt if an
  // expectation failed, so that nothing was done.
  virtual void apply(Change change, base::BootInstant deadline,
                     Done<std::optional<std::uint64_t>> done) = 0;

  // Asks the client with that session to check that all its contenders exist. Best effort. `then`
  // is called when the store has the notification or it has failed, after some seconds at most.
  virtual void notify(std::string session_tag, std::function<void()> then) = 0;
  // The address for notify(), stored in the details of every contender.
  virtual std::string session_tag() const = 0;

  // The locks whose names begin so, at most `limit`.
  virtual void list_locks(std::string prefix, std::size_t limit, base::BootInstant deadline,
                          Done<Locks> done) = 0;

  // The store's own part. The engine adds its own guarantees (fair, modes, tokens). From any
  // thread.
  virtual Guarantees guarantees() const = 0;
  // Asks the servers once for their kind and number. kUnavailable: none of them answers.
  virtual void look_at_servers(base::BootInstant deadline, Done<Servers> done) = 0;
  virtual void probe(base::BootInstant deadline, Done<std::vector<Finding>> done) = 0;

  // Ends the session at the store, which ends all its contenders, and every operation under way
  // (kClosed). From a thread that is not the loop.
  virtual void close(base::BootInstant deadline) = 0;
  virtual void abandon_after_fork() noexcept = 0;
};

}  // namespace holdfast::contend
