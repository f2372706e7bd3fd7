#include "src/server/front/library_scripts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <iterator>

namespace holdfast::server {
namespace {

using Does = LibraryScript::Does;
constexpr std::size_t kManyKeys = LibraryScript::kMany;

// As seen on the wire from these versions; tests/faults/library_locks_test.cc runs the packages.
constexpr LibraryScript kScripts[] = {
    // redis-py 8.1
    {"c3f8721cbb97f72bc19e972846bd7aaf91901658", "redis-py", Does::kRelease, 1},
    {"a4e8783852e6b949f9ef3a97212805108459a890", "redis-py", Does::kExtend, 3},
    {"1cac51482acf5858da00f6d685d68f886cd6b6b2", "redis-py", Does::kExtend, 2},
    // redsync 4.18
    {"e950836ed1e694540c503ef9972b8de518044d3b", "redsync", Does::kRelease, 1, 1, -1},
    {"d75bb8b5bd13532ddedd17762e772346e39b321e", "redsync", Does::kExtend, 2},
    {"b6b55c439e02c6f52ffb8be7ec8c0d0ac816ea79", "redsync", Does::kExtendOrTake, 2},
    // redislock 0.9
    {"80a1b5f2cfccec3b7119ba7721d2127682b691a7", "redislock", Does::kTakeOrKeep, 3},
    {"a7aba3bc5d6e99b3003da8b9d80a63b9f4092ecf", "redislock", Does::kExtend, 2},
    {"6484da7d58920897fdc22b7f9afd1a3d47524ea8", "redislock", Does::kTimeLeft, 1, 1, -3, -3},
    {"cf0e94b2e9ffc7e04395cf88f7583fc309985910", "redislock", Does::kRelease, 1},
    // node-redlock 5.0
    {"96da70f7716f27d278a5218544df37fd8b0a5e4c", "node-redlock", Does::kTakeAll, 2, kManyKeys},
    {"aed6f382e410db8ba7926d4e5e9aab410bf2a78a", "node-redlock", Does::kExtendAll, 2, kManyKeys},
    {"e4612211c9f8f51c257e26e056b0a654b3187242", "node-redlock", Does::kReleaseAll, 1, kManyKeys},
    // Redisson 4.7: RLock
    {"149c5a8bf18676fd99e9e6e24923bd64d9b62f94", "Redisson", Does::kRedissonTake, 2},
    {"6866459238a13a701d42f4971f12d9f3a50e2442", "Redisson", Does::kRedissonUnlock, 5, 3},
    {"605e338249a7a1d40df83b04f7658354f883b41b", "Redisson", Does::kRedissonForce, 2, 2},
    {"6a3d31570dc6f4b0bd32bcdc8e75667747c6f635", "Redisson", Does::kRedissonRenew, 1, kManyKeys},
    // rslock 0.10
    {"daf86bbf8740dd3ca86733367a016364b2110627", "rslock", Does::kRelease, 1},
    {"17a49af0c4b1a9034503fa84f3570f5ca76c4cbf", "rslock", Does::kExtend, 2},
    // redis-plus-plus 1.3
    {"764ece7daa93da82f4fbf4e82e0ade7067dfec70", "redis-plus-plus", Does::kRelease, 1},
    {"d9558fccdcd78dcea082d72df1b67924077deac2", "redis-plus-plus", Does::kExtend, 2},
};

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

const LibraryScript* find_script(std::string_view sha1) {
  const auto same = [](char one, char other) {
    return one == std::tolower(static_cast<unsigned char>(other));
  };
  const auto* const found =
      std::find_if(std::begin(kScripts), std::end(kScripts), [&](const LibraryScript& each) {
        return std::equal(each.sha1.begin(), each.sha1.end(), sha1.begin(), sha1.end(), same);
      });
  return found == std::end(kScripts) ? nullptr : found;
}

std::string sha1_of_script(std::string_view text) {
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
