#include "src/stores/memcached/step.h"

#include <algorithm>
#include <chrono>

namespace holdfast::stores::memcached {
namespace {

// The server's clock may be behind by the length of a pause when it computes an expiry. An item
// that goes early is a lock that is lost, so leases end that much before.
constexpr std::chrono::seconds kLongestPause = std::chrono::minutes(5);
constexpr std::uint64_t kLongestRelative = 30 * 24 * 3600;  // Beyond it, it is a date.

}  // namespace

Result<std::optional<Document>> document_of(const Reply& reply, const std::string& name) {
  switch (reply.kind) {
    case Reply::Kind::kMissing:
      return std::optional<Document>();
    case Reply::Kind::kValue: {
      auto document = decode(reply.text);
      if (!document) return document.error();
      if (document->image.name != name) {
        return Error(Errc::kCorruptState,
                     "another lock has the same key on the server: rename one of them");
      }
      return std::optional<Document>(*std::move(document));
    }
    case Reply::Kind::kRefused:
      return Error(Errc::kUnavailable, "the server refused to answer: " + reply.text);
    case Reply::Kind::kDone:
    case Reply::Kind::kConflict:
    case Reply::Kind::kText:
      break;
  }
  return Error(Errc::kCorruptState, "the server answers a question with something else");
}

std::uint64_t expiry_seconds(const Document& document) {
  if (!document.image.value.empty()) return 0;
  machine::Duration longest{};
  for (const machine::TicketImage& ticket : document.image.tickets) {
    if (ticket.system) continue;
    longest = std::max(longest, ticket.lease);
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(longest) + kLongestPause;
  const auto count = static_cast<std::uint64_t>(seconds.count());
  return count > kLongestRelative ? 0 : count;
}

}  // namespace holdfast::stores::memcached
