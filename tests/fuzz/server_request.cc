// Requests to the lock service, in pieces that the first byte decides, and in single bytes; and the
// calls in them.

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "src/port/owner_json.h"
#include "src/server/front/calls.h"
#include "src/server/front/request_reader.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::server_request {
namespace {

using server::RequestReader;
using server::Words;

constexpr server::RequestLimits kLimits{.max_words = 64, .max_word = 2'048, .max_request = 8'192};

struct Heard {
  std::vector<std::string> words;  // Words of all requests, each ended by an empty one.
  bool broken = false;
  friend bool operator==(const Heard&, const Heard&) = default;
};

void check_call(const Words& words) {
  server::OwnerCache owners;
  const auto call = server::read_call(words, owners);
  if (!call) return;
  demand(words.size() >= 3, "a call has a name and a number of keys");
  for (const server::Request& request : call->requests) {
    demand(request.client.size() <= 64, "a client's name has its limit");
    if (const auto* acquire = std::get_if<machine::Acquire>(&request.action)) {
      demand(!acquire->name.empty() && acquire->name.size() <= 1'024, "a name has its limit");
      demand(acquire->ttl.count() >= 0 && acquire->waiter_ttl.count() >= 0, "no time is negative");
      demand(acquire->owner != nullptr, "an acquisition has an owner");
      const std::string again = port::write_owner(acquire->owner);
      demand(port::write_owner(port::read_owner(again)) == again, "an owner is read back");
    }
  }
}

Heard read(std::string_view rest, std::size_t piece) {
  Heard heard;
  RequestReader reader(kLimits);
  Words words;
  while (!rest.empty()) {
    reader.feed(rest.substr(0, piece));
    rest.remove_prefix(std::min(piece, rest.size()));
    while (true) {
      const auto whole = reader.next(words);
      if (!whole) return heard.broken = true, heard;
      if (!*whole) break;
      check_call(words);
      demand(words.size() <= kLimits.max_words, "a request has its limit of words");
      heard.words.insert(heard.words.end(), words.begin(), words.end());
      heard.words.emplace_back();
    }
    demand(reader.unfinished() <= kLimits.max_request + piece + 32, "a request has its limit");
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

}  // namespace holdfast::fuzz::server_request

HOLDFAST_FUZZ_TARGET(server_request)
