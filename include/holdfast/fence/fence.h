// The rule by which a resource refuses a holder that has lost its lock, and a record of it.
//
//   token shown is      below the recorded   equal to it   above it
//   exclusive           refused              accepted      accepted and recorded
//   shared              refused              refused       accepted, not recorded
//   permits             kUnsupported: several holders are right at once
//
// Only exclusive tokens are recorded. An equal exclusive token is accepted, because a holder writes
// more than once and every exclusive grant has a token of its own: equal is the same grant. A
// shared grant comes after the exclusive ones before it, so its token is above theirs; equal can
// only be an exclusive grant that was downgraded, which goes on showing its token as exclusive (so
// does a reader that has given back an upgrade, with the upgrade's token).
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
// token, or no name of a resource: mend the call). An error accepts nothing and records nothing.
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

// Applies the rule: what is to be recorded from now on, which is `recorded` or `token`. Token{}
// as `recorded`: nothing yet. Token{} as `token` is never a grant's, and refused.
HOLDFAST_EXPORT Result<Token> admit(const Token& recorded, const Token& token,
                                    const Mode& mode = Mode::exclusive());

// The fixed width in which tokens are kept and sent (see Token::to_string), and nothing else: its
// order as text is the order of the tokens. nullopt: not such a text.
HOLDFAST_EXPORT std::optional<Token> read_token(std::string_view text);

// A resource's name: 1 to 256 bytes without control characters. Errors: kInvalidArgument.
HOLDFAST_EXPORT Result<void> check_resource(std::string_view resource);

// Whatever decides about a resource and keeps the record: a MemoryRecord, a guard in a database.
using Admit =
    std::function<Result<void>(const std::string& resource, const Token& token, const Mode& mode)>;

// A record for resources that live in this process, and are gone with it.
class HOLDFAST_EXPORT MemoryRecord {
 public:
  // Checks, records and then runs `body`, before anybody else is let in. `body` must not use this
  // record. An error: `body` was not run. What it throws passes through; the token stays recorded.
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
