// Reads the answers of the scripts for several locks.
//
// Thread-safety: pure functions.
// Errors: kCorruptState: the reply is none of these scripts'.
#pragma once

#include <vector>

#include "holdfast/result.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

// An array of grants, or "<number> <answer>": which lock cannot be had, from 1 on, and why.
Result<port::Store::Grants> acquire_all_answer(const Reply& reply,
                                               const std::vector<port::AcquireRequest>& requests);
// One answer per lock, which may be an error; not in an array where there is one lock.
Result<std::vector<Result<port::EndStatus>>> end_all_answer(
    const Reply& reply, const std::vector<port::AcquisitionRequest>& requests);

}  // namespace holdfast::stores::redis
