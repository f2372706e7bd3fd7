// Decides what becomes of answers that the replicas have not confirmed (?replicas=N).
//
// Guarantee: an unconfirmed grant is given back by its number. kUnavailable: the server confirmed
// that. kOutcomeUnknown: it did not.
// Thread-safety: as the store's. Ownership: the store outlives the calls.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/stores/redis/transport/confirmation.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

// Why the replicas have not confirmed an answer; empty: they have, or were not asked.
using Missing = std::string;

// The small write goes to a key in the client's name space, which its user may write.
Confirmation confirmation_of(const port::StoreContext& context, const RedisAddress& address);

// `where` begins the messages.
void give_back(port::Store& store, const std::string& where, const port::AcquireRequest& request,
               const Missing& missing, port::Done<port::AcquisitionState> done);
void give_back_all(port::Store& store, const std::string& where,
                   const std::vector<port::AcquireRequest>& requests, const Missing& missing,
                   port::Done<port::Store::Grants> done);

// Completes `done` with the answer to a change of the value.
std::function<void(Result<Reply>, const Missing&)> value_set(const std::string& where,
                                                             const std::string& name,
                                                             port::Done<bool> done);

}  // namespace holdfast::stores::redis
