// The scripts that lock libraries for Redis send, by the SHA1 of their text.
//
// The lock service runs no script. It knows what each of these does, and does the same on a lock of
// its own. docs/design/0060-other-libraries.md has the meaning of each.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::server {

struct LibraryScript {
  enum class Does : std::uint8_t {
    kRelease,       // The value gives back its one lock.
    kExtend,        // "replace" or the time left plus the given one, where there is a third word.
    kExtendOrTake,  // Takes the lock when nobody holds it.
    kTimeLeft,
    kTakeOrKeep,  // Takes the lock, or keeps it if the given value holds it already.
    kTakeAll,     // All locks or none.
    kExtendAll,
    kReleaseAll,    // The locks that the value holds.
    kRedissonTake,  // Redisson's RLock: redisson_locks.h.
    kRedissonUnlock,
    kRedissonForce,
    kRedissonRenew,
  };

  std::string_view sha1;
  std::string_view library;
  Does does;
  std::size_t words;  // Behind the keys.
  std::size_t keys = 1;
  int when_free = 0;    // The answer where nobody holds the lock ...
  int when_others = 0;  // ... and where another does.

  // Any number of keys; kRedissonRenew has a word more for each.
  static constexpr std::size_t kMany = 0;
};

// By the SHA1 in hexadecimal digits, in any case; nullptr: it is not one of these.
const LibraryScript* find_script(std::string_view sha1);

}  // namespace holdfast::server
