// Turns refusals of an etcd server, or of the connection to it, into errors.
//
// Guarantee: kUnavailable only if the request was surely not applied and never will be; a request
// that only reads is never kOutcomeUnknown. Messages contain no credentials.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/errc.h"

namespace holdfast::stores::etcd {

// gRPC's status codes, which are part of its protocol.
namespace status {
inline constexpr int kOk = 0;
inline constexpr int kCancelled = 1;
inline constexpr int kUnknown = 2;
inline constexpr int kInvalidArgument = 3;
inline constexpr int kDeadlineExceeded = 4;
inline constexpr int kNotFound = 5;
inline constexpr int kPermissionDenied = 7;
inline constexpr int kResourceExhausted = 8;
inline constexpr int kFailedPrecondition = 9;
inline constexpr int kUnimplemented = 12;
inline constexpr int kInternal = 13;
inline constexpr int kUnavailable = 14;
inline constexpr int kUnauthenticated = 16;
}  // namespace status

// The number and the text of a status.
struct Refusal {
  int code = 0;
  std::string text{};
  bool unsent = false;  // The server has seen nothing of the request, and never will.
  bool ours = false;    // This side says it, not the server.
};

// How the text of some of ours begins.
inline constexpr char kCannotLookUp[] = "cannot look up the host";
inline constexpr char kCannotConnect[] = "cannot connect";
inline constexpr char kNoTls[] = "TLS failed";
inline constexpr char kNoGrpc[] = "HTTP status ";
inline constexpr char kTooLong[] = "the answer is too long";

enum class Remedy {
  kNone,
  kNextServer,  // Another member may perform the request.
  kLogInAgain,  // The token has expired; nothing was applied.
};

struct Verdict {
  Errc code{};
  Remedy remedy = Remedy::kNone;
  bool lease_gone = false;  // The session is over.
  std::string_view advice;
};

// Whether a message above the size limit was cut off.
bool is_too_large(const Refusal& refusal);

Verdict judge(const Refusal& refusal, bool reads_only);

// Whether etcd's quota is used up: it takes deletions only.
bool is_out_of_space(const Error& error);

// Whether a request names a revision that the history does not have any more.
bool is_compacted(const Error& error);

// `server` names the server that was asked.
Error to_error(const Refusal& refusal, bool reads_only, std::string_view server);

}  // namespace holdfast::stores::etcd
