// Finds the slots that have a hash. Open addressing with eight bytes per entry: a lookup among a
// million costs one or two cache misses. Deletion shifts entries back, so there are no tombstones.
//
// The keys stay with their owner, who passes the comparison. The order of the table is never
// shown to anyone: what the machine answers does not depend on hashes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/machine/slab.h"

namespace holdfast::machine {

// Mixes two words into one; good in the low bits.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 32) ^ b) * 0x94D049BB133111EBULL;
  return x ^ (x >> 29);
}

std::uint64_t hash_of(std::string_view text, std::uint64_t seed);

class HashIndex {
 public:
  // The entry with this hash for which `equal(index)` holds; kNone if there is none.
  template <class Equal>
  std::uint32_t find(std::uint64_t hash, Equal equal) const {
    if (slots_.empty()) return kNone;
    const auto tag = static_cast<std::uint32_t>(hash);
    for (std::uint32_t at = tag & mask_; slots_[at].index != kNone; at = (at + 1) & mask_) {
      if (slots_[at].tag == tag && equal(slots_[at].index)) return slots_[at].index;
    }
    return kNone;
  }

  void reserve(std::size_t entries);
  void prefetch(std::uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[static_cast<std::uint32_t>(hash) & mask_]);
  }
  void insert(std::uint64_t hash, std::uint32_t index);
  void erase(std::uint64_t hash, std::uint32_t index);  // Must be there.
  std::size_t size() const { return size_; }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t index = kNone;
  };

  void place(Slot slot);
  bool fits(std::size_t entries) const { return entries * 5 <= slots_.size() * 3; }
  void grow(std::size_t slots);

  std::vector<Slot> slots_;
  std::uint32_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace holdfast::machine
