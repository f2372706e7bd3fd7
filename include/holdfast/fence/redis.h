// Refuses an old token inside a Redis script, together with the write. It sends nothing: it makes
// the words of a command, for any client library.
//
// Example (examples/fence/redis.cc#redis):
//   Result<void> write_stock(redisContext* redis, int items, const Lease& lease) {
//     const auto words = holdfast::fence::redis::guarded_set("stock", std::to_string(items),
//                                                            lease.token(), lease.mode());
//     if (!words) return words.error();
//     const auto reply = send(redis, *words);
//     if (reply->type != REDIS_REPLY_ERROR) return {};
//     return holdfast::fence::redis::refusal({reply->str, reply->len});
//   }
//
// The record of the data key `stock` is the key `holdfast-fence:{stock}`: the same slot of a
// cluster, by its hash tag. A refusal is an error reply that begins with FENCED, which no client
// takes for a success. Tokens are compared as text of a fixed width, because a Lua number cannot
// tell neighbours apart.
//
// Guarantee: check and write are one step of the server; the recorded token never falls.
// Not guaranteed: that record and data survive a loss at the server (a fail-over, a restart without
// persistence, an eviction: use noeviction). The guard does not see writes outside of the script.
// The record has no expiry: it must live as long as the data. Delete both, or neither.
//
// Thread-safety: pure functions. Redis 3.2 or later, Valkey; also behind EVALSHA or as part of
// your own MULTI. An ACL needs +eval and the commands in use, on both keys.
// Errors: kInvalidArgument (an empty key; keys of several slots; a key with "}" but no hash tag,
// for which no other key of the same slot can be named), kUnsupported (permits).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast::fence::redis {

// The key of the record that guards a data key, in the same slot.
HOLDFAST_EXPORT Result<std::string> record_key(std::string_view key);

// Lua that refuses or records, to be put in front of your own script. It uses KEYS[1] (the record),
// ARGV[1] (the token) and ARGV[2] (its mode: "exclusive" or "shared"). A refusal returns from the
// script: the code below it runs for the newest holder only.
HOLDFAST_EXPORT std::string_view check_script();

// EVAL of check_script() and then `body`, which sees `keys` as KEYS[2] and so on, `arguments` as
// ARGV[3] and so on. The record is that of keys.front(). Nothing may be written before the check.
HOLDFAST_EXPORT Result<std::vector<std::string>> guarded_eval(
    std::string_view body, const std::vector<std::string>& keys,
    const std::vector<std::string>& arguments, const Token& token,
    const Mode& mode = Mode::exclusive());

// SET key value, unless the token is old. Its reply is that of SET.
HOLDFAST_EXPORT Result<std::vector<std::string>> guarded_set(const std::string& key,
                                                             const std::string& value,
                                                             const Token& token,
                                                             const Mode& mode = Mode::exclusive());

// Translates an error reply to such a command. kLost: FENCED, a newer holder has written, stop.
// kCorruptState: the record is not a token. kInvalidArgument: the script was called wrongly. Every
// other reply is kOutcomeUnknown with its text.
HOLDFAST_EXPORT Error refusal(std::string_view error_reply);

}  // namespace holdfast::fence::redis
