// How a shard begins: everything that its journal holds, with the locks in a machine.
//
//   reads the batches ─ reads the chunks ─ folds the batches ─ gives the rest to the machine
//                       (on a thread of its own)
//
// The batches come first, so that it is known which locks they change. Every other lock of the
// snapshot goes from its chunk into the machine at once. A Fold has those few that a batch names.
//
// Guarantee: the machine has the locks as a Fold of the whole journal would tell them. A record
// that is damaged, is missing, lies twice or lies at another place is an error, as is a lock that
// no machine could have made. Then nothing is recovered.
// Leases: after a crash each lasts for max(lease, ttl) from the journal's newest instant on (rule
// 39). After an orderly end they last as long as they did (43).
//
// Thread-safety: none. While it runs, the journal is its own.
// Memory: that of the machine, of all batches, and of a Fold of the locks that they name.
// Errors: the journal's; kCorruptState and kVersionMismatch with the record's number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "holdfast/result.h"
#include "src/machine/lock_machine.h"
#include "src/server/fold.h"
#include "src/server/id_set.h"
#include "src/server/journal/journal.h"

namespace holdfast::server {

// A shard begins with this.
struct Recovered {
  machine::LockMachine machine;
  FoldedRest rest;
  std::uint64_t last_batch = 0;
  IdSet extended;         // All whose lease was extended.
  std::size_t locks = 0;  // With a ticket.
  std::size_t holders = 0;
  std::vector<machine::AcquisitionId> waiters;
};

// A year in microseconds, which is how tokens count (Service): so much above its own are those of a
// copy that was put back. Tokens that it does not know were given since it was made, so they are
// below, also where the wall clock was set back meanwhile (rule 49).
inline constexpr std::uint64_t kRestoreLeap = 365ULL * 24 * 3600 * 1'000'000;

// The journal is open. Every token will be above the journal's and above `floor`, the wall clock.
// `old_leader`: an earlier writer may answer renewals from its memory for so long from now on, so
// leases last that much longer.
Result<Recovered> recover(Journal& journal, const machine::Limits& limits, std::uint64_t floor,
                          machine::Duration old_leader = {});

}  // namespace holdfast::server
