// The Redis protocol, in pieces that the first byte decides, and in single bytes.

#include <algorithm>
#include <optional>
#include <vector>

#include "src/stores/redis/protocol/reply.h"
#include "tests/fuzz/memory.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::redis_reply {
namespace {

using stores::redis::Reply;
using stores::redis::ReplyReader;

constexpr std::size_t kMaxMemory = 16 * 1024;
constexpr std::size_t kOwn = 4096;  // Room for errors, and for what malloc() rounds up.

void check(const Reply& reply) {
  demand(reply.kind == Reply::Kind::kArray || reply.items.empty(), "only an array has items");
  for (const Reply& item : reply.items) check(item);
}

// How many replies came, and whether the protocol was broken in the end.
struct Heard {
  std::size_t replies = 0;
  bool broken = false;
  friend bool operator==(const Heard&, const Heard&) = default;
};

Heard read(std::string_view rest, std::size_t piece) {
  Heard heard;
  ReplyReader reader({.max_memory = kMaxMemory});
  while (!rest.empty()) {
    if (!reader.feed(rest.substr(0, piece))) return heard.broken = true, heard;
    rest.remove_prefix(std::min(piece, rest.size()));
    const PeakMemory peak;
    while (true) {
      const auto reply = reader.next();
      if (!reply) return heard.broken = true, heard;
      demand(peak.bytes() <= kMaxMemory + kOwn, "a reply has its limit");
      if (!*reply) break;
      ++heard.replies;
      check(**reply);
    }
  }
  return heard;
}

void check_request(std::string_view bytes) {
  const std::size_t middle = bytes.size() / 2;
  const std::vector<std::string_view> words{bytes.substr(0, middle), "", bytes.substr(middle)};
  std::string request;
  stores::redis::append_command(request, words);
  ReplyReader reader;
  demand(reader.feed(request).has_value(), "a request is the protocol's");
  const auto read = reader.next();
  demand(read && *read && (*read)->items.size() == words.size(), "a request is an array");
  for (std::size_t i = 0; i < words.size(); ++i) {
    demand((*read)->items[i].text == words[i], "a request's words are read back equal");
  }
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::size_t piece = static_cast<std::uint8_t>(input.front()) + std::size_t{1};
  const std::string_view bytes = input.substr(1);
  const Heard heard = read(bytes, piece);
  // With less than the limit in all, it makes no difference how they come.
  if (bytes.size() <= kMaxMemory / 80) demand(read(bytes, 1) == heard, "pieces make no difference");
  check_request(bytes);
}

}  // namespace holdfast::fuzz::redis_reply

HOLDFAST_FUZZ_TARGET(redis_reply)
