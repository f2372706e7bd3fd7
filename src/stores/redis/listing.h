// All locks that somebody holds or waits for, found by walking the server's keys.
//
// Not guaranteed: a snapshot of one instant. Cost: one SCAN over the whole database, in steps of
// 1,000 keys; the records of one step are read together.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/lock_info.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

struct ListingAccess {
  std::function<void(const std::vector<std::string_view>& words, base::BootInstant deadline,
                     port::Done<Reply> done)>
      read;
  std::function<void(std::string name, base::BootInstant deadline,
                     port::Done<std::optional<LockInfo>> done)>
      inspect;
  // The reason why a lock is left out: its stored data cannot be read.
  std::function<void(std::string line)> alarm;
};

// `done` gets at most `limit` locks, by name. Runs on the loop.
void list_locks(ListingAccess access, std::string prefix, std::size_t limit,
                base::BootInstant deadline, port::Done<std::vector<LockInfo>> done);

}  // namespace holdfast::stores::redis
