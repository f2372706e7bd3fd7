#include "src/base/random.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "src/base/fork_guard.h"

namespace holdfast::base {
namespace {

void fill(void* out, std::size_t size) {
  auto* bytes = static_cast<unsigned char*>(out);
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::getrandom(bytes + have, size - have, 0);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      std::fprintf(stderr, "holdfast: getrandom failed: %s\n", std::strerror(errno));
      std::abort();
    }
  }
}

// A thread draws ahead, because a call of the kernel takes longer than all else about an id.
struct Drawn {
  std::uint64_t process = 0;
  std::size_t left = 0;
  std::array<Random128, 16> bits{};  // The kernel fills 256 bytes without a break.
};

}  // namespace

Random128 fresh_random_128() {
  Random128 out;
  do {
    fill(&out, sizeof out);
  } while ((out.high | out.low) == 0);
  return out;
}

Random128 random_128() {
  thread_local Drawn drawn;
  const std::uint64_t process = process_generation();
  while (true) {
    // A forked child has its parent's, and must not use them.
    if (drawn.left == 0 || drawn.process != process) {
      fill(drawn.bits.data(), sizeof drawn.bits);
      drawn.process = process;
      drawn.left = drawn.bits.size();
    }
    const Random128 out = drawn.bits[--drawn.left];
    if ((out.high | out.low) != 0) return out;
  }
}

HexDigits hex_digits(std::uint64_t high, std::uint64_t low) noexcept {
  constexpr char kDigits[] = "0123456789abcdef";
  HexDigits digits;
  for (std::size_t i = 0; i < 16; ++i) {
    digits[15 - i] = kDigits[(high >> (4 * i)) & 15U];
    digits[31 - i] = kDigits[(low >> (4 * i)) & 15U];
  }
  return digits;
}

std::string to_hex(std::uint64_t high, std::uint64_t low) {
  const HexDigits digits = hex_digits(high, low);
  return {digits.data(), digits.size()};
}

}  // namespace holdfast::base
