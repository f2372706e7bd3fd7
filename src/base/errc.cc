#include "holdfast/errc.h"

namespace holdfast {

std::string_view errc_name(Errc code) noexcept {
  switch (code) {
    case Errc::kTimedOut: return "kTimedOut";
    case Errc::kCancelled: return "kCancelled";
    case Errc::kLost: return "kLost";
    case Errc::kUnavailable: return "kUnavailable";
    case Errc::kOutcomeUnknown: return "kOutcomeUnknown";
    case Errc::kInvalidArgument: return "kInvalidArgument";
    case Errc::kUnsupported: return "kUnsupported";
    case Errc::kPermissionDenied: return "kPermissionDenied";
    case Errc::kWouldDeadlock: return "kWouldDeadlock";
    case Errc::kBroken: return "kBroken";
    case Errc::kQueueFull: return "kQueueFull";
    case Errc::kStoreInUse: return "kStoreInUse";
    case Errc::kCorruptState: return "kCorruptState";
    case Errc::kVersionMismatch: return "kVersionMismatch";
    case Errc::kClosed: return "kClosed";
  }
  return "unknown";
}

namespace {

const char* sentence(Errc code) {
  switch (code) {
    case Errc::kTimedOut: return "the wait for the lock timed out";
    case Errc::kCancelled: return "the wait for the lock was cancelled";
    case Errc::kLost: return "the lock was lost";
    case Errc::kUnavailable: return "the lock store is unavailable; nothing was applied";
    case Errc::kOutcomeUnknown: return "the lock store did not answer; the outcome is unknown";
    case Errc::kInvalidArgument: return "invalid lock request";
    case Errc::kUnsupported: return "not supported by this lock store";
    case Errc::kPermissionDenied: return "no permission to use the lock store";
    case Errc::kWouldDeadlock: return "waiting for the lock would never end";
    case Errc::kBroken: return "an operator broke the lock";
    case Errc::kQueueFull: return "too many callers wait for the lock already";
    case Errc::kStoreInUse: return "the lock store is in use by others";
    case Errc::kCorruptState: return "the lock store's data is damaged or foreign";
    case Errc::kVersionMismatch: return "the lock store's data is of an unknown version";
    case Errc::kClosed: return "the lock client is closed";
  }
  return "unknown Holdfast error";
}

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "holdfast"; }
  std::string message(int code) const override { return sentence(static_cast<Errc>(code)); }
};

}  // namespace

const std::error_category& holdfast_category() noexcept {
  static const Category category;
  return category;
}

}  // namespace holdfast
