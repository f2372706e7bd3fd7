#include "src/stores/memcached/inline_steps.h"

#include <utility>

#include "src/port/outcome.h"
#include "src/stores/memcached/alone.h"
#include "src/stores/memcached/protocol/replies.h"
#include "src/stores/memcached/step.h"

namespace holdfast::stores::memcached {

using machine::AcquisitionId;
using machine::Instant;

InlineSteps::Acquired InlineSteps::acquire(const port::AcquireRequest& request, Instant at,
                                           machine::LockImage& lock) {
  auto turn = link_.try_take();
  if (!turn) return std::nullopt;
  used_ = true;
  const std::uint64_t generation = turn->generation();
  if (generation == 0) return std::nullopt;
  // The token is drawn once there is a connection, which may take long to make.
  Document document;
  document.image.name = request.name;
  const auto reply = take_alone(port::to_command(request), at, hooks_.floor(), document.image);
  if (!reply) return std::nullopt;
  {
    const base::LocalLock guard(mutex_);
    under_way_ = request.id;
    cancelled_ = false;
  }
  const Answer answer = turn->ask(
      set_request(key_of(request.name), encode(document), /*number=*/0, expiry_seconds(document)),
      request.deadline);
  bool cancelled = false;
  bool held = false;
  {
    const base::LocalLock guard(mutex_);
    cancelled = std::exchange(cancelled_, false);
    under_way_ = {};
    held = answer.fate == Fate::kDone && answer.reply.kind == Reply::Kind::kDone;
    if (held && !cancelled) {
      if (held_.size() >= kMostHeld) held_.clear();
      held_[request.name] = {generation, answer.reply.number, request.id, at + request.ttl};
    } else if (answer.fate == Fate::kDone) {
      found_busy_ = request.id;
    }
  }
  if (answer.fate == Fate::kUnknown) hooks_.late(request.id);
  if (cancelled && (held || answer.fate == Fate::kUnknown)) {
    hooks_.withdraw(request.name, request.id);
    return std::nullopt;
  }
  if (answer.fate == Fate::kUnknown) {
    return Result<port::AcquisitionState>(
        Error(Errc::kOutcomeUnknown,
              address_ + ": " + answer.why + "; the request may have been carried out"));
  }
  if (!held) return std::nullopt;
  lock = std::move(document.image);
  return port::to_acquire_result(*reply, request, nullptr, at);
}

InlineSteps::Ended InlineSteps::release(const port::AcquisitionRequest& request, Instant at) {
  auto turn = link_.try_take();
  if (!turn) return std::nullopt;
  Held held;
  {
    const base::LocalLock guard(mutex_);
    const auto found = held_.find(request.name);
    if (found == held_.end() || found->second.id != request.id) return std::nullopt;
    held = found->second;
    held_.erase(found);
  }
  // A cas number counts only on the connection that told it.
  if (held.lease_end <= at || turn->generation() != held.generation) return std::nullopt;
  const Answer answer =
      turn->ask(delete_request(key_of(request.name), held.number), request.deadline);
  const bool done = answer.fate == Fate::kDone && answer.reply.kind == Reply::Kind::kDone;
  if (!done) return std::nullopt;
  return Result<port::EndStatus>(port::EndStatus::kReleased);
}

void InlineSteps::forget(const std::string& name) {
  if (!used_) return;
  const base::LocalLock guard(mutex_);
  held_.erase(name);
}

void InlineSteps::end(AcquisitionId id) {
  if (!used_) return;
  const base::LocalLock guard(mutex_);
  if (under_way_ == id) cancelled_ = true;
}

bool InlineSteps::found_busy(AcquisitionId id) const {
  if (!used_) return false;
  const base::LocalLock guard(mutex_);
  return found_busy_ == id;
}

}  // namespace holdfast::stores::memcached
