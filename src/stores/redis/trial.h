// Tries a lock that nobody else uses, for the doctor: checks the permissions, hands the lock from
// one ticket to a second one, and removes its keys.
//
// Thread-safety: as the store's. Ownership: the store outlives the trial.
#pragma once

#include <functional>
#include <string>

#include "src/port/store.h"

namespace holdfast::stores::redis {

struct TrialAccess {
  port::Store& store;
  // These do not wait for a subscription, unlike the store's own operation.
  std::function<void(port::AcquireRequest, port::Done<port::AcquisitionState>)> acquire;
  std::function<void(const port::Done<void>&)> check_rights;
  std::function<void(const port::Task&)> remove_keys;
};

void try_lock(TrialAccess access, const std::string& name, base::BootInstant deadline,
              port::Done<void> done);

}  // namespace holdfast::stores::redis
