// The file that a recorder writes and a collector reads: a header, then slots.
//
//   recorder: takes a slot (reserved + 1), writes the event, then publishes the slot (release)
//   collector: takes the slots that are published (acquire)
//
// The pages belong to the kernel, so a process that is killed at any instruction loses no write. A
// slot that was reserved but never published is torn, and holds no event.
#pragma once

#include <atomic>
#include <cstdint>

#include "lab/history/event.h"

namespace holdfast::lab {

inline constexpr std::uint64_t kRegionMagic = 0x31304c4248464c48ULL;
// Raised whenever Event or the region changes.
inline constexpr std::uint32_t kRegionVersion = 1;

struct RegionHeader {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t process = 0;
  std::uint64_t capacity = 0;
  std::uint64_t event_size = 0;
  std::atomic<std::uint64_t> reserved{0};  // Requested slots, including those beyond the capacity.
};

struct RegionSlot {
  std::atomic<std::uint64_t> published{0};  // The slot's number + 1.
  Event event;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");

inline constexpr std::size_t kRegionHeaderSize = 4096;
static_assert(sizeof(RegionHeader) <= kRegionHeaderSize);

}  // namespace holdfast::lab
