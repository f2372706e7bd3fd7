#include "src/stores/consul/transport/errors.h"

#include <algorithm>
#include <string>

namespace holdfast::stores::consul {
namespace {

constexpr std::size_t kMostOfItsWords = 200;

struct Row {
  std::string_view holds;  // A part of the answer's text.
  Errc code;
  std::string_view advice;
};

constexpr std::string_view kNoSuchToken =
    "Consul does not know this token; give one that it has (token=, HOLDFAST_CONSUL_TOKEN)";

// The first row that fits counts.
constexpr Row kTable[] = {
    {"Permission denied", Errc::kPermissionDenied,
     "the token may not do it; docs/stores/consul.md has the policy that allows it"},
    {"ACL not found", Errc::kPermissionDenied, kNoSuchToken},
    {"token not found", Errc::kPermissionDenied, kNoSuchToken},
    {"leadership lost while committing", Errc::kOutcomeUnknown,
     "the leader changed meanwhile, so it may have been carried out; look before you try again"},
    {"No cluster leader", Errc::kUnavailable,
     "the servers have no leader at present; try again, and if it lasts see that most of them run"},
    {"not leader", Errc::kUnavailable, "the leader has just changed; try again"},
    {"No known Consul servers", Errc::kUnavailable,
     "the agent is connected to no server; see that the servers run and that it has joined them"},
    {"No path to datacenter", Errc::kInvalidArgument, "there is no such datacenter; see dc="},
    {"Invalid Session TTL", Errc::kInvalidArgument,
     "the servers do not allow this ttl: use at least 10s, or their session_ttl_min"},
    {"exceeds the maximum", Errc::kInvalidArgument,
     "the request is larger than Consul allows; send less, or raise the limits of its servers"},
    {"too large", Errc::kInvalidArgument,
     "the request is larger than Consul allows; send less, or raise the limits of its servers"},
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

Error to_error(const HttpReply& reply, std::string_view what, bool reads) {
  const auto error = [&](Errc code, std::string_view advice) {
    return Error(code, std::string(what) + ": " + std::string(advice) + " (Consul says " +
                           std::to_string(reply.status) + ": " + fit_for_people(reply.body) + ")");
  };
  if (reply.doubtful) {
    return error(Errc::kUnavailable,
                 "the servers refuse a token that worked before they were away; it is tried again "
                 "for a while, as they may not have read it from their disks yet");
  }
  for (const Row& row : kTable) {
    if (reply.body.find(row.holds) == std::string::npos) continue;
    const bool harmless = reads && row.code == Errc::kOutcomeUnknown;
    return error(harmless ? Errc::kUnavailable : row.code, row.advice);
  }
  switch (reply.status) {
    case 401:
    case 403: return error(Errc::kPermissionDenied, "the token is refused; see its policies");
    case 429:
      return error(
          Errc::kUnavailable,
          "the agent accepts no more requests or connections from here; try again later, or "
          "raise the limits in its configuration");
    case 400:
    case 404:
    case 405:
      return error(Errc::kUnsupported,
                   "this is not an answer of Consul's HTTP interface; see that the URL names the "
                   "HTTP port of an agent");
    default: break;
  }
  if (reads) {
    return error(Errc::kUnavailable,
                 "the servers cannot answer at present; try again, and if it lasts see their logs");
  }
  return error(Errc::kOutcomeUnknown,
               "the answer does not say whether it was carried out; look before you try again");
}

}  // namespace holdfast::stores::consul
