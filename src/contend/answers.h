// Answers that several files of this folder use.
#pragma once

#include "holdfast/result.h"
#include "src/port/store.h"

namespace holdfast::contend {

// The acquisition has ended, or never existed.
inline port::AcquisitionState gone() { return {.status = port::AcquisitionStatus::kGone}; }

inline Error closed_error() { return {Errc::kClosed, "the client was closed"}; }

inline Error keepalives_unanswered() {
  return {Errc::kUnavailable, "the session's keepalives are not answered"};
}

}  // namespace holdfast::contend
