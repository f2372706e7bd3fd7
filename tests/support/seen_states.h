// An exhaustive search knows a state again by these: its text, the text's hash, a set of hashes.
//
// Not guaranteed: that two states have two hashes. Among ten million states two equal ones have a
// chance of 1 : 300,000.
// Thread-safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace holdfast::testing {

// Hashes of states, none of which is zero.
class SeenStates {
 public:
  std::size_t size() const { return size_; }
  // False: it was there.
  bool insert(std::uint64_t hash) {
    if (2 * size_ >= slots_.size()) grow();
    std::uint64_t* const slot = find(hash);
    if (*slot == hash) return false;
    *slot = hash;
    ++size_;
    return true;
  }

 private:
  std::uint64_t* find(std::uint64_t hash) {
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at] != 0 && slots_[at] != hash) at = (at + 1) & (slots_.size() - 1);
    return &slots_[at];
  }
  void grow() {
    const std::vector<std::uint64_t> before = std::move(slots_);
    slots_.assign(before.empty() ? 1024 : 4 * before.size(), 0);
    for (const std::uint64_t hash : before) {
      if (hash != 0) *find(hash) = hash;
    }
  }
  std::vector<std::uint64_t> slots_;
  std::size_t size_ = 0;
};

// The bytes that tell a state from others.
struct StateText {
  std::array<unsigned char, 512> bytes{};
  std::size_t size = 0;
  void put(auto value) { bytes[size++] = static_cast<unsigned char>(value); }
  friend bool operator<(const StateText& one, const StateText& two) {
    return one.size != two.size ? one.size < two.size
                                : std::memcmp(one.bytes.data(), two.bytes.data(), one.size) < 0;
  }
  std::uint64_t mix(std::uint64_t mixed) const {
    for (std::size_t at = 0; at < size; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, &bytes[at], 8);
      mixed = (mixed ^ word) * 0x9E37'79B9'7F4A'7C15U;
      mixed = (mixed ^ (mixed >> 29U)) * 0xBF58'476D'1CE4'E5B9U;
    }
    return mixed ^ (mixed >> 32U) ^ size;
  }
};

}  // namespace holdfast::testing
