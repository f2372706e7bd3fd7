// All locks that somebody holds or waits for, found by walking the server's keys.
//
// Not guaranteed: a snapshot of one instant. Cost: one SCAN over the whole database, in steps of
// 1,000 keys; the records of one step are read together.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
  // The records are read one by one, because a cluster refuses keys of several slots together.
  bool one_by_one = false;
  // The reason why a lock is left out: its stored data cannot be read.
  std::function<void(std::string line)> alarm;
};

// `done` gets at most `limit` locks, by name. Runs on the loop.
void list_locks(ListingAccess access, std::string prefix, std::size_t limit,
                base::BootInstant deadline, port::Done<std::vector<LockInfo>> done);

// The lists of several servers as one. Runs on the loop.
class Lists : public std::enable_shared_from_this<Lists> {
 public:
  Lists(std::size_t servers, std::size_t limit, port::Done<std::vector<LockInfo>> done)
      : unanswered_(servers), limit_(limit), done_(std::move(done)) {}

  port::Done<std::vector<LockInfo>> one_more();

 private:
  void add(Result<std::vector<LockInfo>> list);

  std::size_t unanswered_;
  const std::size_t limit_;
  const port::Done<std::vector<LockInfo>> done_;
  std::map<std::string, LockInfo> found_;  // A lock on a move may be on two lists.
  std::optional<Error> failure_;
};

}  // namespace holdfast::stores::redis
