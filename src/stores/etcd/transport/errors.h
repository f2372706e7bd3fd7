// Turns refusals of an etcd server, or of gRPC, into errors.
//
// Guarantee: kUnavailable only if the request was surely not applied and never will be; a request
// that only reads is never kOutcomeUnknown. Messages contain no credentials.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/errc.h"

namespace holdfast::stores::etcd {

// The number and the text of a gRPC status.
struct Refusal {
  int code = 0;
  std::string text;
};

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

// Whether gRPC itself has refused a message above the size limit.
bool is_too_large(const Refusal& refusal);

Verdict judge(const Refusal& refusal, bool reads_only);

// Whether etcd's quota is used up: it takes deletions only.
bool is_out_of_space(const Error& error);

// Whether a request names a revision that the history does not have any more.
bool is_compacted(const Error& error);

// `server` names the server that was asked.
Error to_error(const Refusal& refusal, bool reads_only, std::string_view server);

}  // namespace holdfast::stores::etcd
