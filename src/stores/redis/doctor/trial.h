// Tries a lock that nobody else uses, for the doctor: checks the permissions, hands the lock from
// one ticket to a second one, and removes its keys.
//
// Thread-safety: as the store's. Ownership: the store, its requests and its name outlive the trial.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/protocol/requests.h"
#include "src/stores/redis/protocol/script_call.h"

namespace holdfast::stores::redis {

struct TrialAccess {
  port::Store& store;
  const Requests& requests;
  const std::string& where;
  // Does not wait for a subscription, unlike the store's own operation.
  std::function<void(port::AcquireRequest, port::Done<port::AcquisitionState>)> acquire;
  std::function<void(ScriptCall, base::BootInstant, port::Done<Reply>)> run;
  // Sends words to the server that has the lock of this name.
  std::function<void(const std::string&, std::vector<std::string>, base::BootInstant,
                     port::Done<Reply>)>
      read;
};

std::string trial_name(const std::string& name_space, const Requests& requests);
void try_lock(TrialAccess access, const std::string& name, base::BootInstant deadline,
              port::Done<void> done);

}  // namespace holdfast::stores::redis
