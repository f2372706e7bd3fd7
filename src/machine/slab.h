// Objects in numbered slots: a handle is 32 bits, an object never moves, and a slot that was given
// back is the next to be used, while it is still in the cache.
//
// Not guaranteed: that a handle is still meant for the same object. The owner knows.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace holdfast::machine {

inline constexpr std::uint32_t kNone = UINT32_MAX;

template <class T>
class Slab {
 public:
  T& operator[](std::uint32_t index) { return chunks_[index >> kShift][index & kMask]; }
  const T& operator[](std::uint32_t index) const { return chunks_[index >> kShift][index & kMask]; }

  // The object is as its last user left it; new ones are default constructed.
  std::uint32_t take() {
    if (!free_.empty()) {
      const std::uint32_t index = free_.back();
      free_.pop_back();
      return index;
    }
    if ((used_ & kMask) == 0) chunks_.push_back(std::make_unique<T[]>(kMask + 1));
    return used_++;
  }

  void give_back(std::uint32_t index) { free_.push_back(index); }

  std::uint32_t used() const { return used_; }  // Slots ever taken.
  std::size_t size() const { return used_ - free_.size(); }

 private:
  static constexpr std::uint32_t kShift = 10;
  static constexpr std::uint32_t kMask = (1U << kShift) - 1;

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
};

}  // namespace holdfast::machine
