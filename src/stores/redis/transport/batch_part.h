// Marks a request that can join a batch (batching.h).
//
// Thread-safety: a value.
#pragma once

#include <cstdint>

namespace holdfast::stores::redis {

// The positions of such a request's parts in its bytes:
//
//   *9 EVALSHA <hash>  1  <key>  <client>  <id> <issue> ...  <tag>
//                      ^  ^      ^         ^                 ^
//                  count  key    common    own               tail: a cluster's; else the end
//
// Requests of one kind on one connection have the same script. Only those with the same common word
// join.
struct BatchPart {
  enum class Kind : std::uint8_t { kNone, kAcquire, kRelease };

  Kind kind = Kind::kNone;
  std::uint8_t own_words = 0;
  std::uint16_t count = 0;
  std::uint16_t key = 0;
  std::uint16_t common = 0;
  std::uint16_t own = 0;
  std::uint32_t tail = 0;
};

}  // namespace holdfast::stores::redis
