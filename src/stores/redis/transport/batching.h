// Requests that go to the server as one: several locks taken, or several given back. The script
// answers each for itself (scripts/acquire.lua, end.lua); what a call of a script costs beside, and
// the clock, is paid once.
//
// Guarantee: acquisitions go in the order in which they were asked for, since the script refuses
// one whose number comes late. Nothing overtakes, or is overtaken by, a request that goes alone: so
// a cancel stays behind its acquisition. A release, which gives back what was granted before, may
// go ahead of acquisitions: they may wait for just this lock.
// Not guaranteed: that order after a joined request was refused as a whole. Its parts are sent
// again one by one, behind what has gone out meanwhile; the script refuses one that comes late by
// that, whose client asks anew and stands at the end of the queue. Exclusion does not rest on it.
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/clock.h"
#include "src/stores/redis/transport/operation.h"

namespace holdfast::stores::redis {

// The server does nothing else meanwhile.
inline constexpr std::size_t kMostInBatch = 32;
inline constexpr std::size_t kMostBatchBytes = 32 * 1024;
// So many that wait are looked through for others of a kind.
inline constexpr std::size_t kMostLookedThrough = 256;

// Moves from `waiting` to `taken` (empty before) what is to be sent next: one operation, or several
// that can be joined, where `join`. Those that it meets whose deadline has passed go to `late`;
// where there are no others nothing is taken.
void take_next(OperationList& waiting, base::BootInstant now, bool join, OperationList& taken,
               OperationList& late);

// Appends the request of all of these, as take_next() gave them: one at least.
void append_request(std::string& out, const OperationList& taken);

// After a refusal of several at once: whether each would get the same alone, whatever its lock.
// Others are sent again one by one: each is known by its id if it was applied.
bool concerns_each(const Reply& refusal);

}  // namespace holdfast::stores::redis
