#include "src/stores/etcd/transport/errors.h"

#include <algorithm>

namespace holdfast::stores::etcd {
namespace {

constexpr std::size_t kMostOfServersWords = 300;

struct Row {
  std::string_view holds;  // A part of the text.
  Verdict verdict;
  bool ours = false;  // Counts only when this side says it.
};

constexpr std::string_view kSeeRights =
    "the role of this user does not allow it: docs/stores/etcd.md has the lines that do";

constexpr std::string_view kOutOfSpace = "database space exceeded";

// The first matching row counts, so special rows come before general ones.
constexpr Row kTable[] = {
    // It comes first, because its text holds words of the other side.
    {kNoGrpc,
     {Errc::kOutcomeUnknown, Remedy::kNextServer, false,
      "a web server or a proxy answered, not etcd: check that the URL names etcd's client port, "
      "and that a proxy before it passes gRPC on"},
     /*ours=*/true},
    {kNoTls,
     {Errc::kUnavailable, Remedy::kNextServer, false,
      "no TLS with the server: check tls_ca, tls_name, tls_cert, and that it speaks TLS"},
     /*ours=*/true},
    // A server that rejects a certificate just closes the connection.
    {kCannotConnect,
     {Errc::kUnavailable, Remedy::kNextServer, false,
      "no connection: check the address and that the server runs; with TLS, that the URL says "
      "etcds://, and tls_ca, tls_name and tls_cert"},
     /*ours=*/true},
    {kCannotLookUp,
     {Errc::kUnavailable, Remedy::kNextServer, false, "the host name is not known"},
     /*ours=*/true},
    {"etcdserver: no leader",
     {Errc::kUnavailable, Remedy::kNextServer, false,
      "the server sees no leader: retry, and look for members that are down or cut off"}},
    {"etcdserver: too many requests",
     {Errc::kUnavailable, Remedy::kNone, false, "the server is overloaded: retry later"}},
    {kOutOfSpace,
     {Errc::kUnavailable, Remedy::kNone, false,
      "the server's quota is used up: compact, defragment, then 'etcdctl alarm disarm'"}},
    {"etcdserver: requested lease not found",
     {Errc::kLost, Remedy::kNone, true, "the session has ended"}},
    {"etcdserver: rpc not supported for learner",
     {Errc::kUnavailable, Remedy::kNextServer, false, "the server is a learner: name members"}},
    {"etcdserver: invalid auth token",
     {Errc::kPermissionDenied, Remedy::kLogInAgain, false, "the log-in is not valid any more"}},
    {"etcdserver: revision of auth store is old",
     {Errc::kUnavailable, Remedy::kLogInAgain, false, "permissions were just changed: retry"}},
    {"etcdserver: user name is empty",
     {Errc::kPermissionDenied, Remedy::kLogInAgain, false,
      "the server wants a user and a password: name user@ in the URL, and set "
      "HOLDFAST_ETCD_PASSWORD"}},
    {"etcdserver: user name not found",
     {Errc::kPermissionDenied, Remedy::kLogInAgain, false, "the server does not know this user"}},
    {"etcdserver: authentication failed",
     {Errc::kPermissionDenied, Remedy::kNone, false,
      "the server does not accept this user and password: correct HOLDFAST_ETCD_PASSWORD or the "
      "URL"}},
    {"etcdserver: permission denied", {Errc::kPermissionDenied, Remedy::kNone, false, kSeeRights}},
    {"etcdserver: corrupt cluster",
     {Errc::kCorruptState, Remedy::kNone, false, "the server says that its data is corrupt"}},
    {"etcdserver: request is too large",
     {Errc::kInvalidArgument, Remedy::kNone, false, "raise the server's --max-request-bytes"}},
    {"etcdserver: request timed out",
     {Errc::kOutcomeUnknown, Remedy::kNextServer, false,
      "the cluster did not decide in time: an election, a slow disk, or no majority"}},
    {"etcdserver: leader changed",
     {Errc::kOutcomeUnknown, Remedy::kNextServer, false, "the leader changed meanwhile"}},
};

Verdict by_code(int code) {
  switch (code) {
    case status::kInvalidArgument:
    case status::kNotFound:
    case status::kFailedPrecondition:
      return {Errc::kInvalidArgument, Remedy::kNone, false, "the server refuses the request"};
    case status::kPermissionDenied:
    case status::kUnauthenticated:
      return {Errc::kPermissionDenied, Remedy::kNone, false, kSeeRights};
    case status::kUnimplemented:
      return {Errc::kUnsupported, Remedy::kNone, false,
              "the server does not speak etcd's API version 3.4"};
    case status::kDeadlineExceeded:
      return {Errc::kOutcomeUnknown, Remedy::kNextServer, false, "no answer in time"};
    default:
      return {Errc::kOutcomeUnknown, Remedy::kNextServer, false,
              "the connection was lost before the answer"};
  }
}

std::string fit_for_people(std::string_view text) {
  std::string out(text.substr(0, kMostOfServersWords));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return out;
}

}  // namespace

bool is_too_large(const Refusal& refusal) { return refusal.ours && refusal.text == kTooLong; }

bool is_out_of_space(const Error& error) {
  return error.message().find(kOutOfSpace) != std::string::npos;
}

bool is_compacted(const Error& error) {
  return error.message().find("required revision has been compacted") != std::string::npos;
}

Verdict judge(const Refusal& refusal, bool reads_only) {
  const auto* row = std::find_if(std::begin(kTable), std::end(kTable), [&](const Row& each) {
    return (refusal.ours || !each.ours) && refusal.text.find(each.holds) != std::string::npos;
  });
  Verdict verdict = row != std::end(kTable) ? row->verdict : by_code(refusal.code);
  if (refusal.unsent && verdict.code == Errc::kOutcomeUnknown) verdict.code = Errc::kUnavailable;
  if (reads_only && verdict.code == Errc::kOutcomeUnknown) verdict.code = Errc::kUnavailable;
  return verdict;
}

Error to_error(const Refusal& refusal, bool reads_only, std::string_view server) {
  const Verdict verdict = judge(refusal, reads_only);
  std::string message = std::string(server) + ": " + std::string(verdict.advice);
  if (!refusal.text.empty()) {
    message += (refusal.ours ? " (" : " (it says: ") + fit_for_people(refusal.text) + ")";
  }
  return {verdict.code, message};
}

}  // namespace holdfast::stores::etcd
