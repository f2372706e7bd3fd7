// Batches of requests: one call of a script acquires or releases several locks. The script answers
// each part by itself (scripts/acquire.lua, end.lua), and the fixed cost of a call is paid once.
//
// Guarantee: acquisitions keep the order of their calls, because the script refuses a number that
// comes late. No request overtakes one that goes alone, and none is overtaken by it, so a cancel
// stays behind its acquisition. A release may overtake acquisitions, because they may wait for just
// this lock.
// Not guaranteed: that order after a batch was refused as a whole, or after a part asked to go
// alone. Such parts are sent again one by one, after later requests. The script then refuses a part
// that comes too late, and its client asks again and joins the end of the queue. Exclusion does not
// depend on this order.
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/clock.h"
#include "src/stores/redis/transport/operation.h"

namespace holdfast::stores::redis {

// The server serves nobody else while it runs a batch.
inline constexpr std::size_t kMostInBatch = 32;
inline constexpr std::size_t kMostBatchBytes = 32 * 1024;
// How many waiting operations are searched for others of the same kind.
inline constexpr std::size_t kMostLookedThrough = 256;

// Moves the next request from `waiting` to `taken` (empty before): one operation, or with `join` a
// batch of `most` at most (1 or more). Operations whose deadline has passed go to `late`. `taken`
// stays empty if no other is left.
void take_next(OperationList& waiting, base::BootInstant now, bool join, std::size_t most,
               OperationList& taken, OperationList& late);

// Appends the request for the operations of take_next(), of which there is at least one.
void append_request(std::string& out, const OperationList& taken);

// After the refusal of a batch: whether each part would get the same refusal alone. Otherwise the
// parts are sent again one by one; the server recognizes an applied one by its id.
bool concerns_each(const Reply& refusal);

// Whether this part of a batch was not done, and must be sent again alone: in a cluster, the batch
// could not read the lock's key at this node.
bool asks_to_go_alone(const Reply& reply);

}  // namespace holdfast::stores::redis
