// Locks as one deterministic state machine, free of clocks, threads, I/O and randomness.
//
//   ticket    Acquire     Renew        Release     Cancel      its lease ends
//   none      holds,      kGone        kGone (1)   kGone (1)   -
//             waits or
//             kBusy
//   waits     the same    extended     leaves      leaves      leaves
//   holds     the same    extended     leaves      leaves      leaves, next is granted
//                                      (2)         (2)
//   (1) and the id is refused from then on, for as long as its tombstone stands
//   (2) and the next in the queue is granted in the same step
//
// It is the memory store; the transactional stores run it inside their transactions; the others
// are tested against it. Every change of state is an effect: a reader who sees only effects can
// rebuild the state.
//
// Guarantee: no two tickets hold that are incompatible (admission.h), whatever is asked. Tokens of
// one lock name grow strictly from grant to grant, also over release, expiry, being forgotten, and
// snapshot and restore. Equal command sequences give equal replies, effects and states on any
// machine. Lease ends move back by Keep only. Nothing is granted or extended retroactively: a lease
// of the command's lock that is over at its instant is dropped before the command is looked at.
// Not guaranteed: that a lease which is over has been dropped. Only a command makes time pass; use
// next_event() to know when to send one. The holder may not know: its deadline is its own affair.
//
// Thread-safety: none; drive it from one thread or under one mutex.
// Ownership: copies all that it keeps; owners are shared.
// Time: the caller's, in microseconds on any axis, in each command. An instant before now() is
// taken as now(). Lengths saturate at the end of the axis. A lease ends *at* its end.
// Fairness: first come, first served. A step admits from the queues
// at most Limits::admissions_per_step; the following steps go on where it stopped.
// Cost: O(log n) in all tickets and tombstones per ticket ended, granted, queued or extended,
// whatever the length of the queue it stands in. Break looks at the lock's holders one by one, a
// shrinking Resize at its waiters, names() and snapshot() at everything.
// Errors: Outcome (command.h); nothing throws but lack of memory. A broken invariant aborts, in
// release builds too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/machine/command.h"
#include "src/machine/effect.h"
#include "src/machine/image.h"
#include "src/machine/types.h"

namespace holdfast::machine {

struct Limits {
  // Queue admissions per step; those beyond it are made by the next steps (next_event() says now).
  std::uint32_t admissions_per_step = 128;
  std::uint32_t max_tombstones = 65'536;  // The oldest go first beyond it.
  std::size_t max_value = 4096;           // Bytes.
  // No counter above this is ever issued (a store that reserves tokens in blocks sets it).
  std::uint64_t token_ceiling = UINT64_MAX;
  // How long the id of a ticket whose lease ended stays refused. Zero: not at all, for stores
  // whose requests cannot be late.
  Duration expiry_tombstone{};
  // Against names chosen to collide. It changes speed, never an answer.
  std::uint64_t hash_seed = 0;
  // Locks, tickets and tombstones are made so many at once; a power of two. No more does it change
  // an answer: a machine that is made for one operation wants few.
  std::uint32_t chunk = 1'024;
};

class LockMachine {
 public:
  // Every token will be above `floor` and of its epoch.
  explicit LockMachine(Token floor, Limits limits = {});
  ~LockMachine();
  LockMachine(LockMachine&&) noexcept;
  LockMachine& operator=(LockMachine&&) noexcept;

  // Expires what is due, performs the command, admits whom that lets in; appends to `effects`
  // (not cleared), in the order in which it happened.
  Reply apply(const Command& command, Effects& effects);

  // The answer of apply() at now() to this Acquire without `may_wait`: kHeld, or the reason against
  // it. A caller can so look at several locks before it takes one. It is exact while the last step
  // has left nothing over of this lock.
  Outcome foresee(const Acquire& acquire) const;

  // The earliest instant at which a Tick would change something; nullopt if none ever would.
  // Never before now().
  std::optional<Instant> next_event() const;
  // Whether the last step has left admissions over.
  bool admits_more() const;

  std::optional<LockImage> inspect(std::string_view name) const;
  // That of the acquisition's ticket as it stands now; nullopt: it has none. Cost: constant.
  std::optional<Mode> mode_of(std::string_view name, AcquisitionId id) const;
  // Whether its ticket as it stands now would get a longer lease than its acquire asked for. Cost:
  // constant.
  bool lengthens(const Renew& renew) const;
  // The locks that have tickets, a value or tombstones; sorted, the first `limit` of them.
  std::vector<std::string> names(std::string_view prefix, std::size_t limit) const;
  // The same, of locks with tickets whose names are above `after`. It copies no name but these.
  std::vector<std::string> names_in_use(std::string_view prefix, std::string_view after,
                                        std::size_t limit) const;

  MachineImage snapshot() const;
  // nullopt: an image that no machine could have made.
  static std::optional<LockMachine> restore(const MachineImage& image, Limits limits = {});

  // Loads one lock (which must not exist yet): what a transactional store does before apply().
  // False, and nothing changed, if the image is inconsistent or its last token is of a later epoch
  // than the floor. Its leases may be over already: the next command drops them.
  bool restore_lock(const LockImage& image);
  // The same for one after the other, and faster. It answers how many it has loaded before the
  // first one that is refused. Owners and values are moved out of the images.
  std::size_t restore_locks(std::span<LockImage> images);
  // So many locks, with a ticket each, are about to come. It changes speed, never an answer.
  void reserve(std::size_t locks);

  Instant now() const;
  Token floor() const;  // Raised by forgotten locks; what a store must keep over a restart.

  // Waiters that found no token get theirs in the steps after it was raised.
  void set_token_ceiling(std::uint64_t ceiling);

  // Abort unless every invariant holds. The per-step form looks at what the last command touched,
  // and runs by itself after each; the full form looks at everything.
  void check_last_step() const;
  void check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::machine
