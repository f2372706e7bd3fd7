// Operations on a lease besides renewal and release.
#include <utility>

#include "src/base/thread.h"
#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/names.h"

namespace holdfast::session {
namespace {

Result<void> without_answer(const Result<bool>& done) {
  return done ? Result<void>() : Result<void>(done.error());
}

}  // namespace

// --- Downgrade.

Result<void> Core::downgrade(const AcquisitionPtr& acquisition) {
  return await<void>([&](Done<void> done) { downgrade(acquisition, std::move(done)); });
}

void Core::downgrade(const AcquisitionPtr& acquisition, Done<void> done) {
  if (acquisition->base) return release(acquisition, std::move(done));
  if (acquisition->mode.kind() == holdfast::Mode::Kind::kPermits) {
    return done(Error(Errc::kInvalidArgument,
                      lock_named(acquisition->name) + ": permits cannot be downgraded"));
  }
  ask<port::AcquisitionState>(
      [&](BootInstant deadline, port::Done<port::AcquisitionState> answered) {
        port::AcquisitionRequest request = end_of(*acquisition);
        request.deadline = deadline;
        store_->downgrade(std::move(request), std::move(answered));
      },
      [this, acquisition, done = std::move(done)](const Result<port::AcquisitionState>& reply) {
        done(on_downgraded(acquisition, reply));
      });
}

Result<void> Core::on_downgraded(const AcquisitionPtr& acquisition,
                                 const Result<port::AcquisitionState>& reply) {
  if (!reply) {
    return Error(reply.error().code(),
                 lock_here(*acquisition) + ": the downgrade failed: " + reply.error().message());
  }
  if (reply->status != port::AcquisitionStatus::kHeld) {
    doubt(acquisition);  // The renewal finds out why.
    return Error(Errc::kLost,
                 lock_here(*acquisition) + ": the lease had ended before it was downgraded");
  }
  acquisition->downgraded = true;
  return {};
}

// --- Leaving to the store.

void Core::leave_to_store(const AcquisitionPtr& acquisition, std::chrono::milliseconds time,
                          std::optional<std::string> value, Done<void> done) {
  if (auto alive = check_alive(); !alive) return done(alive);
  if (store_->guarantees().ends_with_client) {
    return done(Error(Errc::kUnsupported,
                      lock_here(*acquisition) +
                          ": leases end with their client there, and cannot be kept for a time"));
  }
  const auto begun = begin_to_leave(acquisition, time);
  if (!begun) return done(begun.error());
  ask<bool>(
      [&](BootInstant deadline, port::Done<bool> answered) {
        store_->keep(
            {stored(acquisition->name), acquisition->id, *begun, time, std::move(value), deadline},
            std::move(answered));
      },
      [this, acquisition, done = std::move(done)](const Result<bool>& kept) {
        if (!forked()) end_leaving(acquisition, kept);
        done(without_answer(kept));
      });
}

void Core::detach(const AcquisitionPtr& acquisition) {
  const bool of_session = longest_lease_ != Duration::max() && !acquisition->outlives_client;
  if (of_session && may_outlive_ && !forked() && !base::on_library_thread()) {
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(acquisition->asked_ttl);
    const auto left = await<void>(
        [&](Done<void> done) { leave_to_store(acquisition, time, std::nullopt, std::move(done)); });
    if (left) {
      const Turn turn(*this);
      acquisition->answer_release(detached_error(*acquisition));
      return;
    }
  }
  Releasing::detach(acquisition);
}

// From here on this side counts on no more than it asks for. The lease may end by then, whether or
// not an answer comes.
Result<std::uint64_t> Core::begin_to_leave(const AcquisitionPtr& acquisition, Duration time) {
  const Turn turn(*this);
  if (auto held = check_held(acquisition); !held) return held.error();
  if (acquisition->being_left) {
    return Error(Errc::kInvalidArgument,
                 lock_named(acquisition->name) + " is being let go by another call");
  }
  acquisition->being_left = true;
  const std::uint64_t seq = acquisition->renewal->begin_to_keep(base::BootClock::now(), time);
  publish(*acquisition);
  unschedule(*acquisition);
  return seq;
}

void Core::end_leaving(const AcquisitionPtr& acquisition, const Result<bool>& kept) {
  const Turn turn(*this);
  acquisition->being_left = false;
  if (acquisition->released) return;
  if (kept) {
    reports_.ended(*acquisition, HoldEnd::kDetached);
    return end_locally(acquisition);
  }
  // The store may have shortened the lease. If the handle goes, a release could cut the time for
  // which the store was to keep the lock.
  if (kept.error().code() == Errc::kOutcomeUnknown) acquisition->perhaps_left = true;
  if (closed_) return lose(acquisition, Error(Errc::kClosed, "the client was closed"));
  const bool surely_not = kept.error().code() == Errc::kUnavailable;
  apply(acquisition, acquisition->renewal->on_not_kept(base::BootClock::now(), surely_not));
}

// --- Values.

// Nothing is sent for a lease that was lost or let go on this side, although the store may know it
// for longer.
Result<void> Core::check_held(const AcquisitionPtr& acquisition) {
  if (acquisition->released || !acquisition->renewal) {
    return Error(Errc::kLost,
                 lock_named(acquisition->name) + " is not held any more by this lease");
  }
  look_at_deadline(acquisition);
  if (const auto loss = acquisition->why_lost()) return *loss;
  return {};
}

void Core::set_value(const AcquisitionPtr& holder, std::string value, Done<void> done) {
  if (auto alive = check_alive(); !alive) return done(alive);
  Result<void> held;
  {
    const Turn turn(*this);
    held = check_held(holder);
  }
  if (!held) return done(held);
  ask<bool>(
      [&](BootInstant deadline, port::Done<bool> answered) {
        port::AcquisitionRequest request = end_of(*holder);
        request.deadline = deadline;
        store_->set_value(std::move(request), std::move(value), std::move(answered));
      },
      [done = std::move(done)](const Result<bool>& set) { done(without_answer(set)); });
}

}  // namespace holdfast::session
