// Random bits from the kernel.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace holdfast::base {

struct Random128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};

// Never all zero. Aborts if the kernel gives none: an id that might collide is worse. Each thread
// draws some ahead; a forked child never uses those of its parent. Not guaranteed: that a virtual
// machine which is resumed twice from one snapshot draws different ids at first.
Random128 random_128();
// The same, with nothing drawn ahead: for the guard against fork() itself.
Random128 fresh_random_128();

// 32 lower-case hexadecimal digits.
std::string to_hex(std::uint64_t high, std::uint64_t low);
// The same without an allocation.
using HexDigits = std::array<char, 32>;
HexDigits hex_digits(std::uint64_t high, std::uint64_t low) noexcept;

}  // namespace holdfast::base
