// FNV-1a, for sums and hashes that are kept in files or shared by processes. It is the same on
// every host and in every version.
//
// Thread-safety: pure functions. Not guaranteed: anything against somebody who picks the text.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast::base {

inline constexpr std::uint64_t kFnvStart = 0xcbf29ce484222325;

// `sum`: of the text before this one.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t sum = kFnvStart) {
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return sum;
}

// Two sums of one text, in the time of one: each byte of a sum waits for the byte before it.
constexpr void fnv1a(std::string_view text, std::uint64_t& one, std::uint64_t& other) {
  std::uint64_t a = one;
  std::uint64_t b = other;
  for (const char c : text) {
    a = (a ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    b = (b ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  one = a;
  other = b;
}

}  // namespace holdfast::base
