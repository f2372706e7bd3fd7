// Locks of other libraries: "SET key value NX PX" and the scripts that compare and delete, done on
// locks of this service (docs/design/0060-other-libraries.md).
//
// A key is the lock of that name, so a lock library and Holdfast's own clients exclude each other.
// The value is the holder's owner. Each grant has an acquisition of its own, which the release and
// the extension look up by the value.
//
// Guarantee: an answer that tells of a grant or of an extension leaves after its commit. A step for
// a holder changes nothing if the holder is another one by then.
// Not guaranteed: order among requests of one connection that are sent without waiting for answers;
// a place in the queue, a token, a wake-up: these libraries have none.
//
// Thread-safety: the loop's thread. Ownership: the service outlives the connection.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "src/server/front/connection.h"
#include "src/server/front/libraries/redisson_locks.h"
#include "src/server/service.h"

namespace holdfast::server {

// The locks that such a command names: it is run by the service of their shard.
struct LibraryTarget {
  bool is_known = false;                  // It is one of these commands.
  bool is_ids = false;                    // It is about ids, which are in the first shard.
  std::vector<std::string_view> locks{};  // Views of the words.
};
LibraryTarget library_target(const Words& words);
// The lease that such a command asks for; the longest that there is, if it names none.
std::chrono::milliseconds library_lease(const Words& words);

// False: it is none of these commands, and nothing was done.
bool run_library_command(Service& service, UnlockAnswers& answers, Connection& connection,
                         const Words& words);

}  // namespace holdfast::server
