// Objects in numbered slots. A handle is 32 bits, and an object never moves. A slot that was given
// back is the next to be used, while it is still in the cache. Slots are made in chunks: large ones
// for a machine that has many locks for long, small ones for one that lives for an operation.
//
// Not guaranteed: that a handle is still meant for the same object. The owner knows.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <memory>
#include <vector>

namespace holdfast::machine {

inline constexpr std::uint32_t kNone = UINT32_MAX;

template <class T>
class Slab {
 public:
  // `chunk`: slots, a power of two.
  explicit Slab(std::uint32_t chunk)
      : shift_(static_cast<std::uint32_t>(std::countr_zero(chunk))), mask_(chunk - 1) {
    assert(std::has_single_bit(chunk));
  }

  T& operator[](std::uint32_t index) { return chunks_[index >> shift_][index & mask_]; }
  const T& operator[](std::uint32_t index) const { return chunks_[index >> shift_][index & mask_]; }

  // The object is as its last user left it; new ones are default constructed.
  std::uint32_t take() {
    if (!free_.empty()) {
      const std::uint32_t index = free_.back();
      free_.pop_back();
      return index;
    }
    if ((used_ & mask_) == 0) chunks_.push_back(std::make_unique<T[]>(mask_ + 1));
    return used_++;
  }

  void give_back(std::uint32_t index) { free_.push_back(index); }

  std::uint32_t used() const { return used_; }  // Slots ever taken.
  std::size_t size() const { return used_ - free_.size(); }

 private:
  std::uint32_t shift_;
  std::uint32_t mask_;
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
};

}  // namespace holdfast::machine
