// The store's scripts, one per operation: src/stores/redis/scripts/*.lua, each with lock.lua in
// place of its line `--@lock`, and entry.lua in place of `--@entry`.
//
// Thread-safety: constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::stores::redis {

enum class ScriptName : std::uint8_t {
  kAcquire,
  kEnd,
  kRenew,
  kDowngrade,
  kBreak,
  kResize,
  kSetValue,
  kInspect,
  kRights,
  kAcquireAll,
};
inline constexpr std::size_t kScripts = 10;

// The clock that a script reads.
enum class ScriptClock : std::uint8_t {
  kServer,
  kArgument,  // Tests: microseconds in the last argument, 16 digits.
};

struct Script {
  std::string text;
  std::string sha1;  // For EVALSHA.
};

// 40 hexadecimal digits: the name that Redis gives a script.
std::string sha1_of(const std::string& text);

const Script& script(ScriptName name, ScriptClock clock = ScriptClock::kServer);

}  // namespace holdfast::stores::redis
