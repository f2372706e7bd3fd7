// The error codes of Holdfast. Each names the caller's next step.
//
// `Errc` converts to std::error_code, so it travels through std::system_error and Asio. The
// numbers are stable: they may be stored and sent.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "holdfast/export.h"

namespace holdfast {

enum class Errc : int {
  // The wait ended first. The lock is not held and no request is pending. Try later.
  kTimedOut = 1,
  // The caller cancelled the wait. The lock is not held and no request is pending.
  kCancelled = 2,
  // The lease expired or was taken away. Stop touching what the lock protects.
  kLost = 3,
  // The store cannot be reached or used now. Nothing was applied, or it was taken back: retrying is
  // safe.
  kUnavailable = 4,
  // The request may or may not have been applied. The lock may be held for one ttl: retry after
  // it, or look with Client::inspect().
  kOutcomeUnknown = 5,
  // The request is malformed, or contradicts how the lock is in use. Do not retry as it is.
  kInvalidArgument = 6,
  // This store cannot do that (see Client::guarantees()). Choose another store or primitive.
  kUnsupported = 7,
  // The user may not use the store or file. Fix the permissions or credentials.
  kPermissionDenied = 8,
  // The wait could never end: the caller itself is part of the deadlock. Release first.
  kWouldDeadlock = 9,
  // An operator freed the lock by force while it was held: stop touching what it protects. Or a
  // participant of a barrier is gone: reset the barrier when all are ready.
  kBroken = 10,
  // As many requests wait already as are allowed. Try later.
  kQueueFull = 11,
  // Others still use the store in an old state (SQLite: a file of another boot). Stop them first.
  kStoreInUse = 12,
  // The store's data is damaged, foreign or of another store than before. Examine it before use.
  kCorruptState = 13,
  // A version that this one does not know wrote the store's data. Upgrade.
  kVersionMismatch = 14,
  // The client was closed, or this is a forked child of the process that owns it. Connect again.
  kClosed = 15,
};

// The code's name as it is written here ("kTimedOut").
HOLDFAST_EXPORT std::string_view errc_name(Errc code) noexcept;

HOLDFAST_EXPORT const std::error_category& holdfast_category() noexcept;

inline std::error_code make_error_code(Errc code) noexcept {
  return {static_cast<int>(code), holdfast_category()};
}

// A code and a sentence for people: what happened, where, and what to do. The sentence holds no
// credentials and is not meant to be parsed.
class Error {
 public:
  Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {}

  Errc code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

  friend bool operator==(const Error&, const Error&) = default;

  // "kLost: the lease of 'stock' expired": for logs and test output.
  HOLDFAST_EXPORT friend std::ostream& operator<<(std::ostream& out, const Error& error);

 private:
  Errc code_;
  std::string message_;
};

}  // namespace holdfast

template <>
struct std::is_error_code_enum<holdfast::Errc> : std::true_type {};
