// Writes histories by hand: one line per call.
//
// Ownership: history() copies. Time: in the story's own nanoseconds. Calls may be added in any
// order, but equal stamps of one owner in theirs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/history/history.h"

namespace holdfast::lab::testing {

struct Asked {  // The unusual parts of an acquire.
  Outcome outcome = Outcome::kGranted;
  ModeKind mode = ModeKind::kExclusive;
  std::uint32_t count = 1;
  std::uint32_t capacity = 1;
  std::uint64_t token = 0;
  std::int64_t deadline = 0;
  std::int64_t ttl = 0;
  std::int64_t wait = 0;
  std::uint32_t lock = 0;
  std::uint64_t id = 0;  // 0: the owner's process number.
};

class Story {
 public:
  explicit Story(std::vector<std::string> locks = {"a"});

  // The owner is the only one of its process. With `ret` below `invoke` the call never returned.
  void acquire(std::uint32_t process, std::int64_t invoke, std::int64_t ret, const Asked& asked);
  void call(Kind kind, std::uint32_t process, std::int64_t invoke, std::int64_t ret,
            Outcome outcome, const Asked& asked = {});
  // A write, accepted or refused as the n-th of the resource.
  void write(std::uint32_t process, std::int64_t at, std::uint64_t sequence, const Asked& asked,
             Outcome outcome = Outcome::kAccepted);
  void lost(std::uint32_t process, std::int64_t at, const Asked& asked = {});
  void death(std::uint32_t process, std::int64_t at);
  void fault(FaultKind kind, std::int64_t begin, std::int64_t end);
  void incarnation(std::int64_t begin, std::int64_t end);
  void add(const Event& event) { history_.events.push_back(event); }

  History history() const;

 private:
  History history_;
  std::uint64_t calls_ = 0;
};

// Sorts by stamp, and keeps the order of equal ones.
void sort_events(History& history);

}  // namespace holdfast::lab::testing
