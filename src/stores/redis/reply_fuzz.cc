// Feeds the reply reader whatever bytes come, in pieces that the first byte decides.
//
// With libFuzzer: clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -I. -Iinclude
//   src/stores/redis/reply_fuzz.cc src/stores/redis/reply.cc src/base/errc.cc -lhiredis -o fuzz
//   ./fuzz src/stores/redis/reply_corpus
// The corpus is replayed by reply_corpus_test.cc in every build.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/stores/redis/reply.h"

namespace {

using holdfast::stores::redis::Reply;
using holdfast::stores::redis::ReplyReader;

constexpr std::size_t kMaxElements = 64;
constexpr std::size_t kMaxBytes = 4096;

struct Size {
  std::size_t elements = 0;
  std::size_t bytes = 0;
};

void measure(const Reply& reply, Size& size) {
  ++size.elements;
  size.bytes += reply.text.size();
  if (reply.kind != Reply::Kind::kArray && !reply.items.empty()) std::abort();
  for (const Reply& item : reply.items) measure(item, size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = std::size_t{data[0]} + 1;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  ReplyReader reader({.max_bytes = kMaxBytes, .max_elements = kMaxElements});
  while (!rest.empty()) {
    if (!reader.feed(rest.substr(0, piece))) return 0;
    rest.remove_prefix(std::min(piece, rest.size()));
    while (true) {
      const auto reply = reader.next();
      if (!reply) return 0;
      if (!*reply) break;
      Size found;
      measure(**reply, found);
      if (found.elements > kMaxElements || found.bytes > kMaxBytes) std::abort();
    }
  }
  return 0;
}
