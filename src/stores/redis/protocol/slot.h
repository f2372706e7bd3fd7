// The slots of a Redis Cluster: each key is in one of 16384, by the CRC of its hash tag.
//
// Guarantee: as the cluster's specification has it. All clients use the same tag for a slot.
// Thread-safety: pure functions and constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::stores::redis {

inline constexpr std::size_t kSlots = 16384;

std::uint16_t slot_of_key(std::string_view key);
// The slot of a lock's keys.
std::uint16_t slot_of(std::string_view name);

// One text for each slot that lies in it: "{<n>}" with the smallest number. Takes milliseconds.
class SlotTags {
 public:
  SlotTags();
  std::string of(std::uint16_t slot) const { return "{" + std::to_string(numbers_[slot]) + "}"; }

 private:
  std::vector<std::uint32_t> numbers_;
};

// The name of a lock in that slot: `head` and a number.
std::string name_in_slot(std::string_view head, std::uint16_t slot);

}  // namespace holdfast::stores::redis
