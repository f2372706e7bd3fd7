#include "src/stores/etcd/transport/answer_size.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace holdfast::stores::etcd {
namespace {

// An empty KeyValue and its slot in an array, rounded up.
constexpr std::size_t kPerField = 160;
// The deepest answers: a transaction's list of ranges, and a key in one of them.
constexpr int kDeepest = 5;

std::optional<std::uint64_t> take_number(std::string_view& rest) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    number |= std::uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80U) == 0) return number;
  }
  return std::nullopt;
}

// Counts the fields with a length at all depths, until the bytes are no message. A text that looks
// like a message is counted as one, so the result is an upper bound.
std::size_t count_fields(std::string_view rest, int depth) {
  std::size_t count = 0;
  while (!rest.empty()) {
    const auto tag = take_number(rest);
    if (!tag || *tag < 8) return count;
    std::uint64_t skip = 0;
    switch (*tag & 7U) {
      case 0:
        if (!take_number(rest)) return count;
        break;
      case 1: skip = 8; break;
      case 5: skip = 4; break;
      case 2: {
        const auto length = take_number(rest);
        if (!length) return count;
        // A truncated field is read up to its end.
        skip = std::min<std::uint64_t>(*length, rest.size());
        ++count;
        if (depth < kDeepest) count += count_fields(rest.substr(0, skip), depth + 1);
        break;
      }
      case 3:
      case 4: break;  // Groups are skipped.
      default: return count;
    }
    if (skip > rest.size()) return count;
    rest.remove_prefix(skip);
  }
  return count;
}

}  // namespace

std::size_t memory_to_read(std::string_view message) {
  return 2 * message.size() + kPerField * count_fields(message, 0);
}

}  // namespace holdfast::stores::etcd
