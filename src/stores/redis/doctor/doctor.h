// Examines how far a running server, as configured now, keeps the store's guarantees.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "holdfast/guarantees.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/sentinel/sentinel_doctor.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

struct DoctorAccess {
  std::function<void(const std::vector<std::string_view>& words, base::BootInstant deadline,
                     port::Done<Reply> done)>
      read;
  // Acquires and releases a lock of its own, with everything that locks need.
  std::function<void(base::BootInstant deadline, port::Done<void> done)> try_lock;
  std::function<void(base::BootInstant deadline, port::Done<void> done)> subscribe;
  AskSentinel ask_sentinel{};  // Set if the URL names Sentinels.
};

// Runs on the loop. A question that the user is not permitted to ask is a finding, not an error.
void examine(DoctorAccess access, const RedisAddress& address, base::BootInstant deadline,
             port::Done<std::vector<Finding>> done);

}  // namespace holdfast::stores::redis
