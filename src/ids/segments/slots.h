// Two ranges of numbers that threads take from without a lock: one is in use while the other one is
// filled.
//
// The state is one word: a generation (32 bits) and an offset (32 bits). The generation's lowest
// bit names the slot in use. A caller reads the word and the slot, checks the offset against the
// slot's size, and swaps the word. A slot is filled only while the other one is in use, so a caller
// that read an overwritten slot holds an old generation and its swap fails.
//
// Guarantee: no number of a filled range is claimed twice, and none beyond its end.
// Not guaranteed: that, for a caller that sleeps through 2^32 changes of slots within one call.
// Thread-safety: fill() one thread at a time, all else from any thread. Blocking: never.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace holdfast::ids {

class Slots {
 public:
  // A caller's view. It claims numbers from it, or has to look again.
  struct Look {
    std::uint64_t word = 0;
    std::uint64_t first = 0;
    std::uint32_t size = 0;
    std::uint32_t level = 0;

    std::uint32_t generation() const { return static_cast<std::uint32_t>(word >> 32); }
    std::uint32_t offset() const { return static_cast<std::uint32_t>(word); }
    std::uint32_t left() const { return offset() < size ? size - offset() : 0; }
    // Whether a claim of so many comes to the level that fill() named: one claim of a range does.
    bool reaches_level(std::uint32_t count) const {
      return offset() < level && level - offset() <= count;
    }
  };

  Look look() const { return look_from(word_.load(std::memory_order_acquire)); }

  // Starts from what the last claim left: a processor reads that sooner than a word that it has
  // just swapped. When the word is another one meanwhile, the claim fails.
  Look look_likely() const { return look_from(likely_.load(std::memory_order_acquire)); }

  // Takes the next `count` numbers, at most left(). False: the word has changed.
  bool claim(const Look& seen, std::uint32_t count) {
    std::uint64_t expected = seen.word;
    const std::uint64_t next = seen.word + count;
    const bool claimed = word_.compare_exchange_strong(expected, next, std::memory_order_acq_rel,
                                                       std::memory_order_relaxed);
    // Release: whoever starts from it sees the slot that it names.
    if (claimed) likely_.store(next, std::memory_order_release);
    return claimed;
  }

  // Goes on to the other slot, once this one is used up. False: that one is not filled yet.
  bool advance(const Look& seen) {
    if (shut_.load(std::memory_order_acquire)) return false;
    const std::uint32_t next = seen.generation() + 1;
    if (filled_.load(std::memory_order_acquire) != next) {
      return word_.load(std::memory_order_acquire) != seen.word;
    }
    std::uint64_t expected = seen.word;
    word_.compare_exchange_strong(expected, std::uint64_t{next} << 32, std::memory_order_acq_rel,
                                  std::memory_order_relaxed);
    return true;
  }

  bool has_next() const { return filled_.load(std::memory_order_acquire) != look().generation(); }

  // Fills the slot that is not in use. False: it is filled already.
  bool fill(std::uint64_t first, std::uint32_t size, std::uint32_t level) {
    if (has_next()) return false;
    const std::uint32_t next = look().generation() + 1;
    Slot& slot = slots_[next & 1U];
    slot.first.store(first, std::memory_order_release);
    slot.bounds.store(std::uint64_t{size} << 32 | level, std::memory_order_release);
    filled_.store(next, std::memory_order_release);
    return true;
  }

  // Nothing can be claimed any more.
  void shut() {
    shut_.store(true, std::memory_order_release);
    word_.fetch_or(0xffff'ffffU, std::memory_order_acq_rel);
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> first{0};
    std::atomic<std::uint64_t> bounds{0};  // Size and level, 32 bits each.
  };

  Look look_from(std::uint64_t word) const {
    Look seen{.word = word};
    const Slot& slot = slots_[seen.generation() & 1U];
    // Acquire: whoever reads a value of a later filling also sees the word that went before it.
    seen.first = slot.first.load(std::memory_order_acquire);
    const std::uint64_t bounds = slot.bounds.load(std::memory_order_acquire);
    seen.size = static_cast<std::uint32_t>(bounds >> 32);
    seen.level = static_cast<std::uint32_t>(bounds);
    return seen;
  }

  alignas(64) std::atomic<std::uint64_t> word_{0};
  alignas(64) std::atomic<std::uint64_t> likely_{0};
  alignas(64) std::array<Slot, 2> slots_;
  std::atomic<std::uint32_t> filled_{0};  // The last generation that was filled.
  std::atomic<bool> shut_{false};
};

}  // namespace holdfast::ids
