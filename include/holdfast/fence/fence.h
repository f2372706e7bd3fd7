// The rule by which a resource refuses a holder that has lost its lock, and a record of it.
//
//   token shown is      below the recorded   equal to it   above it
//   exclusive           refused              accepted      accepted and recorded
//   shared              refused              refused       accepted, not recorded
//   permits             kUnsupported: several holders are valid at once
//
// Only exclusive tokens are recorded. An equal exclusive token is accepted, because a holder writes
// more than once and every exclusive grant has a token of its own: equal is the same grant. A
// shared grant comes after the exclusive grants before it, so its token is above theirs. An equal
// token can only be a downgraded exclusive grant, which still shows its token as exclusive. So does
// a reader that has released an upgrade, with the upgrade's token.
//
// Guarantee: in any order of calls the recorded token never falls, and no exclusive token below the
// highest one accepted is accepted.
// Not guaranteed: anything about a write that happens after the check. The check and the write must
// be one step of the resource: one transaction (postgres.h, mysql.h, sqlite.h), one script
// (redis.h), one critical section (MemoryRecord::write, file.h).
// Not guaranteed either: an order between tokens of different lock names. Protect a resource by one
// name.
//
// Example (examples/fence/main.cc#memory):
//   Result<void> write_stock(int items, const Lease& lease) {
//     return record.write("stock", lease.token(), lease.mode(), [&] { stock = items; });
//   }
//
// Thread-safety: MemoryRecord is safe; the functions are pure.
// Errors: kLost (refused: stop, as after a lost lock), kUnsupported (permits), kInvalidArgument (no
// token, or no name of a resource: fix the call). An error accepts nothing and records nothing.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast::fence {

// Applies the rule. Returns the token to record from now on: `recorded` or `token`. Token{} as
// `recorded` means that none is recorded yet. Token{} as `token` is no grant's, and is refused.
HOLDFAST_EXPORT Result<Token> admit(const Token& recorded, const Token& token,
                                    const Mode& mode = Mode::exclusive());

// Reads the fixed width in which tokens are kept and sent (see Token::to_string), and nothing else.
// The order of such texts is the order of their tokens. nullopt: not such a text.
HOLDFAST_EXPORT std::optional<Token> read_token(std::string_view text);

// A resource's name: 1 to 256 bytes without control characters. Errors: kInvalidArgument.
HOLDFAST_EXPORT Result<void> check_resource(std::string_view resource);

// Decides about a resource and keeps the record: a MemoryRecord, or a guard in a database.
using Admit =
    std::function<Result<void>(const std::string& resource, const Token& token, const Mode& mode)>;

// A record for resources that live in this process. It ends with the process.
class HOLDFAST_EXPORT MemoryRecord {
 public:
  // Checks, records and then runs `body`; other calls wait until it has returned. `body` must not
  // use this record. An error: `body` was not run. If `body` throws, the token stays recorded.
  Result<void> write(const std::string& resource, const Token& token, const Mode& mode,
                     const std::function<void()>& body);

  Result<void> admit(const std::string& resource, const Token& token,
                     const Mode& mode = Mode::exclusive());

  // The highest exclusive token that was accepted; Token{}: none yet.
  Token recorded(const std::string& resource) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Token> tokens_;
};

}  // namespace holdfast::fence
