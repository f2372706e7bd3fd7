// One run of a script: what is sent, and what came back.
//
// Thread-safety: values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/stores/redis/reply.h"
#include "src/stores/redis/scripts.h"

namespace holdfast::stores::redis {

struct ScriptCall {
  ScriptName name{};
  ScriptClock clock = ScriptClock::kServer;
  std::vector<std::string> keys;
  std::vector<std::string> args;

  // EVALSHA: the server has the script, or answers NOSCRIPT.
  std::string by_hash() const;
  // EVAL, which also leaves the script with the server.
  std::string whole() const;
  bool reads_only() const { return name == ScriptName::kInspect; }
};

// The reply, unless it is an error: then what it means.
Result<Reply> checked(Result<Reply> reply, std::string_view what);

bool is_unknown_script(const Result<Reply>& reply);

}  // namespace holdfast::stores::redis
