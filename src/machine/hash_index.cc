#include "src/machine/hash_index.h"

#include <bit>
#include <cstring>
#include <utility>

#include "src/machine/require.h"

namespace holdfast::machine {

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = mix(seed, text.size());
  while (text.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof word);
    hash = mix(hash, word);
    text.remove_prefix(sizeof word);
  }
  std::uint64_t rest = 0;
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  return mix(hash, rest);
}

void HashIndex::reserve(std::size_t entries) {
  if (entries > 0 && !fits(entries)) grow(std::bit_ceil(entries * 5 / 3 + 1));
}

void HashIndex::insert(std::uint64_t hash, std::uint32_t index) {
  if (!fits(size_ + 1)) grow(slots_.empty() ? 16 : slots_.size() * 2);
  place({static_cast<std::uint32_t>(hash), index});
  ++size_;
}

void HashIndex::erase(std::uint64_t hash, std::uint32_t index) {
  std::uint32_t hole = static_cast<std::uint32_t>(hash) & mask_;
  while (slots_[hole].index != index) {
    HOLDFAST_REQUIRE(slots_[hole].index != kNone, "an erased index entry is there");
    hole = (hole + 1) & mask_;
  }
  // Entries behind the hole move up unless that would put them before their own place.
  for (std::uint32_t at = (hole + 1) & mask_; slots_[at].index != kNone; at = (at + 1) & mask_) {
    const std::uint32_t home = slots_[at].tag & mask_;
    if (((at - home) & mask_) >= ((at - hole) & mask_)) {
      slots_[hole] = slots_[at];
      hole = at;
    }
  }
  slots_[hole] = Slot{};
  --size_;
}

void HashIndex::place(Slot slot) {
  std::uint32_t at = slot.tag & mask_;
  while (slots_[at].index != kNone) at = (at + 1) & mask_;
  slots_[at] = slot;
}

void HashIndex::grow(std::size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  mask_ = static_cast<std::uint32_t>(slots_.size() - 1);
  for (const Slot& slot : old) {
    if (slot.index != kNone) place(slot);
  }
}

}  // namespace holdfast::machine
