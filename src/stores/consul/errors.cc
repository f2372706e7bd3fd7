#include "src/stores/consul/errors.h"

#include <algorithm>
#include <string>

namespace holdfast::stores::consul {
namespace {

constexpr std::size_t kMostOfItsWords = 200;

struct Row {
  std::string_view holds;  // What the answer says somewhere.
  Errc code;
  std::string_view advice;
};

// The first row that fits counts.
constexpr Row kTable[] = {
    {"Permission denied", Errc::kPermissionDenied,
     "the token may not do it: docs/stores/consul.md has the policy that allows it"},
    {"ACL not found", Errc::kPermissionDenied, "Consul does not know this token"},
    {"token not found", Errc::kPermissionDenied, "Consul does not know this token"},
    {"leadership lost while committing", Errc::kOutcomeUnknown,
     "the leader changed meanwhile: it may have been carried out"},
    {"No cluster leader", Errc::kUnavailable, "the servers have no leader now: retry"},
    {"not leader", Errc::kUnavailable, "the leader changed: retry"},
    {"No known Consul servers", Errc::kUnavailable, "the agent knows no server: mend the cluster"},
    {"No path to datacenter", Errc::kInvalidArgument, "there is no such datacenter: see dc="},
    {"Invalid Session TTL", Errc::kInvalidArgument,
     "the ttl is outside what the servers take (10s at least, but for their session_ttl_min)"},
    {"exceeds the maximum", Errc::kInvalidArgument, "that is more than Consul takes"},
    {"too large", Errc::kInvalidArgument, "that is more than Consul takes"},
};

std::string fit_for_people(std::string_view text) {
  std::string out(text.substr(0, kMostOfItsWords));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  if (text.size() > kMostOfItsWords) out += "...";
  return out;
}

}  // namespace

bool is_refusal(std::string_view words) {
  return std::any_of(std::begin(kTable), std::end(kTable), [words](const Row& row) {
    return row.code == Errc::kPermissionDenied && words.find(row.holds) != std::string_view::npos;
  });
}

Error with_lock(const Error& error, const std::string& lock) {
  return {error.code(), "lock '" + lock + "': " + error.message()};
}

Error to_error(const HttpReply& reply, std::string_view what, bool reads) {
  const std::string head = std::string(what) + ": ";
  const std::string said =
      " (Consul says " + std::to_string(reply.status) + ": " + fit_for_people(reply.body) + ")";
  if (reply.doubtful) {
    return {Errc::kUnavailable,
            head +
                "the servers refuse the token, which they took before they were away: it is "
                "tried again, as they may not have read it from their disks yet" +
                said};
  }
  for (const Row& row : kTable) {
    if (reply.body.find(row.holds) == std::string::npos) continue;
    const bool harmless = reads && row.code == Errc::kOutcomeUnknown;
    std::string text = head;
    text.append(row.advice).append(said);
    return {harmless ? Errc::kUnavailable : row.code, text};
  }
  if (reply.status == 401 || reply.status == 403) {
    return {Errc::kPermissionDenied, head + "the token is refused" + said};
  }
  if (reply.status == 429) {
    return {Errc::kUnavailable,
            head + "too many requests or connections (limits in the agent's configuration)" + said};
  }
  if (reply.status == 400 || reply.status == 404 || reply.status == 405) {
    return {Errc::kUnsupported, head + "this is not what Consul's HTTP interface answers" + said};
  }
  if (reads) return {Errc::kUnavailable, head + "the servers cannot answer now: retry" + said};
  return {Errc::kOutcomeUnknown,
          head + "refused in a way that does not say whether it was carried out" + said};
}

}  // namespace holdfast::stores::consul
