// Replies of a memcached, or of whatever listens there, in pieces that the first byte decides, and
// in single bytes; and the doctor's reading of them.

#include <algorithm>
#include <vector>

#include "src/stores/memcached/doctor.h"
#include "src/stores/memcached/protocol/replies.h"
#include "tests/fuzz/memory.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::memcached_reply {
namespace {

using stores::memcached::Reply;
using stores::memcached::ReplyReader;

struct Heard {
  std::vector<std::string> texts;
  bool bad = false;
  friend bool operator==(const Heard&, const Heard&) = default;
};

Heard read(std::string_view rest, std::size_t piece) {
  Heard heard;
  ReplyReader reader;
  const std::size_t most = 8 * rest.size() + 16 * 1024;
  const PeakMemory peak;
  while (!rest.empty()) {
    reader.feed(rest.substr(0, piece));
    rest.remove_prefix(std::min(piece, rest.size()));
    while (const auto reply = reader.next()) {
      demand(reply->text.size() <= stores::memcached::kLargestDocument, "a reply has its limit");
      heard.texts.push_back(reply->text);
    }
  }
  demand(peak.bytes() <= most + 64 * heard.texts.size(), "no memory is taken for a mere number");
  heard.bad = reader.bad();
  return heard;
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::size_t piece = static_cast<std::uint8_t>(input.front()) + std::size_t{1};
  const std::string_view bytes = input.substr(1);
  const Heard heard = read(bytes, piece);
  demand(read(bytes, 1) == heard, "pieces make no difference");
  for (const std::string& text : heard.texts) {
    (void)stores::memcached::findings_of(text, text);
    const Reply reply{Reply::Kind::kText, 0, text};
    const auto checked = stores::memcached::check_server(reply, reply, "memcached://a");
    demand(checked || !checked.error().message().empty(), "it is told what is wrong");
  }
}

}  // namespace holdfast::fuzz::memcached_reply

HOLDFAST_FUZZ_TARGET(memcached_reply)
