#include "src/server/front/libraries/sha1.h"

#include <array>
#include <bit>
#include <cstdint>

namespace holdfast::server {
namespace {

// The 80 steps for one block of 64 bytes.
void add_block(std::array<std::uint32_t, 5>& state, std::string_view block) {
  std::array<std::uint32_t, 80> words{};
  for (std::size_t i = 0; i < 64; ++i) {
    words[i / 4] = words[i / 4] << 8U | static_cast<unsigned char>(block[i]);
  }
  for (std::size_t i = 16; i < 80; ++i) {
    words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  }
  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < 80; ++i) {
    const std::uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                                : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                                : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                         : (b ^ c ^ d) + 0xca62c1d6;
    const std::uint32_t next = std::rotl(a, 5) + mixed + e + words[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const std::uint32_t sums[] = {a, b, c, d, e};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += sums[i];
}

}  // namespace

std::string sha1_hex(std::string_view text) {
  std::array<std::uint32_t, 5> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  // Padding: one bit, zeros up to 8 bytes before the end of a block, and the number of bits.
  std::string padded(text);
  padded += '\x80';
  padded.resize((padded.size() + 8 + 63) / 64 * 64 - 8, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) {
    padded += static_cast<char>((std::uint64_t{text.size()} * 8) >> static_cast<unsigned>(shift));
  }
  for (std::size_t at = 0; at < padded.size(); at += 64) {
    add_block(state, std::string_view(padded).substr(at, 64));
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const std::uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      digits += kDigits[(word >> static_cast<unsigned>(shift)) & 0xfU];
    }
  }
  return digits;
}

}  // namespace holdfast::server
