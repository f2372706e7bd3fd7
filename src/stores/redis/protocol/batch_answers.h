// Parses the answers of scripts that ask for several things at once.
//
// Thread-safety: pure functions.
// Errors: kCorruptState: the reply is none of these scripts'.
#pragma once

#include <vector>

#include "holdfast/result.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

// An array of grants, or "<number> <answer>": the first lock that cannot be had, counted from 1,
// and why.
Result<port::Store::Grants> acquire_all_answer(const Reply& reply,
                                               const std::vector<port::AcquireRequest>& requests);
// An acquisition and the read behind it. kOutcomeUnknown: the acquisition was made, and the read
// failed.
Result<port::Store::StateAndValue> acquire_and_read_answer(const Reply& state, const Reply& value,
                                                           const port::AcquireRequest& request);
// One answer per lock, which may be an error. For one lock the answer is not in an array.
Result<std::vector<Result<port::EndStatus>>> end_all_answer(
    const Reply& reply, const std::vector<port::AcquisitionRequest>& requests);

}  // namespace holdfast::stores::redis
