// The lock service's calls as words on the wire, and its answers as texts.
//
// A call is "HF1 <op> <number of keys> <key>... <word>...". Keys, words and answers are those of
// the redis store's scripts (src/stores/redis/scripts), with two differences: the last answer of
// `renew` is empty, because no clock of the server concerns a client, and `list`, `value`, `kept`,
// `keep`, `status` and `attach` are this server's own (docs/design/0057-lock-service-wire.md).
//
// Guarantee: whatever the words are, reading them ends in a call or an error.
// Thread-safety: pure functions.
// Ownership: a Call's actions point into the words and into the call.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/machine/types.h"
#include "src/server/access/account.h"
#include "src/server/front/request_reader.h"
#include "src/server/requests.h"

namespace holdfast::server {

enum class Op : std::uint8_t {
  kAcquire,
  kAcquireAll,
  kEnd,
  kRenew,
  kDowngrade,
  kBreak,
  kResize,
  kSetValue,
  kInspect,
  kValue,
  kList,
  kStatus,
  kAttach,
  kWatch,
  kKept,
  kKeep,
};

struct Call {
  Op op{};
  std::vector<Request> requests;  // One per key; for kDowngrade two.
  // kList; kWatch has the prefix in `name` and the client in `after`. kInspect and kValue have the
  // name of the first request's lock in `name`.
  std::string name{};
  KeepText keeps{};  // kKeep; its key is also in `name`, as kKept's.
  std::string after{};
  std::size_t limit = 0;
  // Names that were escaped on the wire. (A list: its texts never move.)
  std::list<std::string> decoded{};
};

// The last owner that a connection has named: most requests of a client name the same one.
struct OwnerCache {
  std::string text;
  machine::OwnerPtr owner;
};

// Errors: kInvalidArgument, with the reason.
Result<Call> read_call(const Words& words, OwnerCache& owners);

// "held <token> <seq> <lease>", "waiting ...", "busy <next>", "gone" ... `base_ended`: the shared
// lease that was to be upgraded has ended.
std::string answer_text(const Answer& answer, bool base_ended = false);
// The same for a renewal, which also hears of a break: "broken <trace>".
std::string renewal_text(const Answer& answer);
// The texts of a failure: a word that tells the client what to do, and the reason.
std::string failure_text(const Error& error);

// The reply to `inspect`: six items. `last`: the last token of a lock that is free. Without the
// right to acquire, the ids of acquisitions are not shown: a user who has one can end its hold.
// Neither are the values of other users' lock libraries.
void append_sight(std::string& out, const LockSight& sight, std::optional<machine::Token> last,
                  const AccountPtr& account);

// "granted <id> <token> <seq> <lease>", "hint <id>" or "delayed <id> <opens in>". A client ignores
// a word that it does not know.
std::string push_text(const port::Push& push);

// "<kind> <token> <rest of the lease in ms> <bytes of the name> <name> <owner as JSON>".
// nullopt: it is no event for a watch. A message has "event <bytes of the prefix> " before it.
// `owner`: the effect's, as the listener may see it.
std::optional<std::string> event_text(const machine::Effect& effect, machine::Instant at,
                                      const machine::OwnerPtr& owner);

std::string channel_of(std::string_view client);      // "hf1:@<client>"
std::string value_channel_of(std::string_view name);  // "hf1:{<name>}:v"
// nullopt: it is not such a channel.
std::optional<std::string> lock_of_value_channel(std::string_view channel);

}  // namespace holdfast::server
