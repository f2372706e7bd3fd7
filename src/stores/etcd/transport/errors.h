// The errors that an etcd server, or the way to it, answers instead of a result.
//
// Guarantee: kUnavailable is said only where the request was surely not applied and cannot be any
// more; a request that only reads is never kOutcomeUnknown. Messages hold no credentials.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/errc.h"

namespace holdfast::stores::etcd {

// A status of gRPC: its number and its text.
struct Refusal {
  int code = 0;
  std::string text;
};

enum class Remedy {
  kNone,
  kNextServer,  // Another member may do it.
  kLogInAgain,  // The token ran out: nothing was applied.
};

struct Verdict {
  Errc code{};
  Remedy remedy = Remedy::kNone;
  bool lease_gone = false;  // The session is over.
  std::string_view advice;
};

// Whether gRPC itself has cut off a message that takes more than it may.
bool is_too_large(const Refusal& refusal);

Verdict judge(const Refusal& refusal, bool reads_only);

// `server` is where it was asked.
Error to_error(const Refusal& refusal, bool reads_only, std::string_view server);

}  // namespace holdfast::stores::etcd
