// Replies of a server that leads, as one that forwards to it splits them: in pieces that the first
// byte decides, and in single bytes.

#include <algorithm>
#include <string>
#include <vector>

#include "src/server/front/reply_splitter.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::server_reply {
namespace {

constexpr std::size_t kMost = 4'096;

struct Heard {
  std::vector<std::string> replies;
  bool broken = false;
  friend bool operator==(const Heard&, const Heard&) = default;
};

Heard read(std::string_view rest, std::size_t piece) {
  Heard heard;
  server::ReplySplitter splitter(kMost);
  while (!rest.empty()) {
    splitter.feed(rest.substr(0, piece));
    rest.remove_prefix(std::min(piece, rest.size()));
    while (true) {
      const auto reply = splitter.next();
      if (!reply) return heard.broken = true, heard;
      if (reply->empty()) break;
      demand(reply->size() <= kMost, "a reply has its limit");
      heard.replies.emplace_back(*reply);
    }
    demand(splitter.unfinished() <= kMost, "what is kept has its limit");
  }
  return heard;
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::size_t piece = static_cast<std::uint8_t>(input.front()) + std::size_t{1};
  const std::string_view bytes = input.substr(1);
  demand(read(bytes, 1) == read(bytes, piece), "pieces make no difference");
}

}  // namespace holdfast::fuzz::server_reply

HOLDFAST_FUZZ_TARGET(server_reply)
