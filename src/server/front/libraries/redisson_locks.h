// Redisson's RLock on a lock of this service: re-entry, waiters that are woken by a message, the
// watchdog's renewal (docs/design/0060-other-libraries.md).
//
// The holder's value is Redisson's "<client>:<thread>". Its count of holds lies in the lock's value
// beside the acquisition that it belongs to, and is committed with each step.
//
// Guarantee and limits: as in library_locks.h. An unlock that is sent again after a lost answer
// gets the same answer, for as long as the client asks. After a restart of the service it hears
// that it does not hold.
//
// Thread-safety: the loop's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "src/base/clock.h"
#include "src/server/front/connection.h"
#include "src/server/front/libraries/library_scripts.h"
#include "src/server/service.h"

namespace holdfast::server {

// The answers of unlocks, by the name that the client draws for each. At most 4,096 of them.
class UnlockAnswers {
 public:
  std::optional<int> find(std::string_view name) const;
  void keep(const std::string& name, int answer, machine::Duration length);

 private:
  struct Kept {
    int answer = 0;
    base::BootInstant until{};
  };
  std::unordered_map<std::string, Kept> kept_;
  std::deque<std::string> order_;
};

// Whether a lock's value is a count of holds: it names an acquisition.
bool is_redisson_count(std::string_view value);

// The channel whose message wakes the waiters of a lock.
std::string redisson_channel_of(std::string_view lock);
inline constexpr std::string_view kRedissonChannel = "redisson_lock__channel:";

void run_redisson_script(Service& service, UnlockAnswers& answers, Connection& connection,
                         const LibraryScript& script, const Words& words);
// HEXISTS and HGET of a lock and a holder.
void run_redisson_question(Service& service, Connection& connection, const Words& words,
                           bool counts);

}  // namespace holdfast::server
