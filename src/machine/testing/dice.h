// Draws that replay from a seed on any machine: no library's distribution is part of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::machine::testing {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t draw() {  // SplitMix64.
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

  // Below `bound`, which is small: the bias of the remainder does not matter.
  std::uint64_t below(std::uint64_t bound) { return draw() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  template <class Container>
  auto& pick(Container& container) {
    return container[static_cast<std::size_t>(below(container.size()))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace holdfast::machine::testing
