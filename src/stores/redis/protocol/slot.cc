#include "src/stores/redis/protocol/slot.h"

#include <array>

#include "src/stores/redis/protocol/keys.h"

namespace holdfast::stores::redis {
namespace {

// CRC-16/XMODEM: the polynomial 0x1021, from zero.
constexpr std::array<std::uint16_t, 256> make_table() {
  std::array<std::uint16_t, 256> table{};
  for (unsigned int byte = 0; byte < table.size(); ++byte) {
    unsigned int crc = byte << 8U;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ 0x1021U : crc << 1U;
    }
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}
constexpr std::array<std::uint16_t, 256> kTable = make_table();

std::uint16_t crc_of(std::string_view text) {
  unsigned int crc = 0;
  for (const char c : text) {
    crc = ((crc << 8U) & 0xffffU) ^ kTable[(crc >> 8U) ^ static_cast<unsigned char>(c)];
  }
  return static_cast<std::uint16_t>(crc % kSlots);
}

}  // namespace

std::uint16_t slot_of_key(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) return crc_of(key);
  const std::size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return crc_of(key);
  return crc_of(key.substr(open + 1, close - open - 1));
}

std::uint16_t slot_of(std::string_view name) { return slot_of_key(record_key(name)); }

SlotTags::SlotTags() : numbers_(kSlots) {
  std::vector<bool> found(kSlots);
  std::size_t missing = kSlots;
  for (std::uint32_t number = 0; missing > 0; ++number) {
    const std::uint16_t slot = crc_of(std::to_string(number));
    if (found[slot]) continue;
    found[slot] = true;
    numbers_[slot] = number;
    --missing;
  }
}

std::string name_in_slot(std::string_view head, std::uint16_t slot) {
  for (std::uint64_t number = 0;; ++number) {
    std::string name = std::string(head) + std::to_string(number);
    if (slot_of(name) == slot) return name;
  }
}

}  // namespace holdfast::stores::redis
