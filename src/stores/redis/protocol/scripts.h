// The store's scripts, one per operation: src/stores/redis/scripts/*.lua, each with lock.lua in
// place of its line `--@lock`, and entry.lua in place of `--@entry`.
//
// A cluster has a text of its own for each script. Lines that begin with `--@cluster ` are code
// only there, lines that begin with `--@single ` only at a single server, whose scripts therefore
// do not become slower. While its slot moves to another node, a script answers TRYAGAIN before it
// has written (cluster.lua), unless it needs the lock's record only or renews (moving.lua).
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

// In a cluster the last argument is the slot's tag (slot.h), before which a test's clock stands. A
// batch declares no keys there: they and their tags are its last arguments (cluster.lua).
// Pushes go to sharded channels in that slot. The lock service has no scripts but knows these calls
// by name: "HF1 acquire 1 <key> ...".
enum class ScriptHost : std::uint8_t { kServer, kCluster, kService };

struct Script {
  std::string text;
  std::string sha1;  // For EVALSHA.
};

// 40 hexadecimal digits: the name that Redis gives a script.
std::string sha1_of(const std::string& text);

const Script& script(ScriptName name, ScriptClock clock = ScriptClock::kServer,
                     ScriptHost host = ScriptHost::kServer);

}  // namespace holdfast::stores::redis
