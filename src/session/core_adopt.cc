// Taking over a lease that another handle or process began.
#include <algorithm>
#include <utility>

#include "holdfast/detail/transient.h"
#include "src/base/random.h"
#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/names.h"

namespace holdfast::session {
namespace {

constexpr int kAttempts = 3;

// The first number of the requests of a client that adopts a lease. Two clients that renew one
// lease must never use the same number. Otherwise each would count its deadline from a request of
// the other. So each takes a range of a million numbers far above the last one, at random, because
// two may adopt at once. Stores count with 63 bits. A lease that lives by adoptions alone comes
// near their end after half a million of them. From there the steps shrink with the rest, which
// lasts for millions more.
std::uint64_t first_number_after(std::uint64_t seq) {
  constexpr int kRangeBits = 20;
  constexpr std::uint64_t kRanges = std::uint64_t{1} << (63 - kRangeBits);
  constexpr std::uint64_t kMostSteps = 1U << 24U;
  const std::uint64_t range = std::min(seq >> kRangeBits, kRanges - 2);
  const std::uint64_t steps = std::clamp<std::uint64_t>((kRanges - range) >> 18U, 1, kMostSteps);
  return (range + 1 + base::random_128().low % steps) << kRangeBits;
}

}  // namespace

struct Core::Adoption {
  AcquisitionPtr acquisition;
  SendLog log;
  BootInstant until{};
  Done<AcquisitionPtr> done;
  int overtaken = 0;         // By who renews it at the same time.
  bool may_be_ours = false;  // By an attempt without an answer.
};

Result<Core::AcquisitionPtr> Core::adopt(std::string name, const holdfast::Mode& mode,
                                         port::AcquisitionId id, AcquireOptions options) {
  return await<AcquisitionPtr>([&](Done<AcquisitionPtr> done) {
    adopt(std::move(name), mode, id, std::move(options), std::move(done));
  });
}

void Core::adopt(std::string name, const holdfast::Mode& mode, port::AcquisitionId id,
                 AcquireOptions options, Done<AcquisitionPtr> done) {
  if (auto alive = check_alive(); !alive) return done(alive.error());
  if (auto good = check_name(name); !good) return done(good.error());
  if (store_->guarantees().ends_with_client) {
    return done(Error(Errc::kUnsupported,
                      lock_named(name) + at_store() +
                          ": leases end with their client there, and cannot be taken over"));
  }
  options.outlives_client = true;
  auto made = make_acquisition(std::move(name), mode, std::move(options));
  if (!made) return done(std::move(made));
  (*made)->id = id;
  (*made)->issue = 0;
  (*made)->wait->pushes_missed_at_send = pushes_missed_;
  try_to_adopt(std::make_shared<Adoption>(Adoption{*std::move(made),
                                                   SendLog::starting_at(first_number_after(0)),
                                                   request_deadline(), std::move(done)}));
}

// The number of the last request is known to the store only: the first answer tells it.
void Core::try_to_adopt(const std::shared_ptr<Adoption>& adoption) {
  Acquisition& acquisition = *adoption->acquisition;
  acquisition.wall_minus_boot_at_send = base::wall_minus_boot().count();
  const std::uint64_t seq = adoption->log.add(base::BootClock::now());
  ask<AdoptReply>(
      [&](BootInstant, port::Done<AdoptReply> done) {
        const Duration waiter_ttl = RenewalSchedule::waiter_lease(acquisition.ttl);
        Outgoing outgoing{adoption->acquisition,
                          {stored(acquisition.name),
                           acquisition.id,
                           seq,
                           acquisition.lease_at_store(),
                           waiter_ttl,
                           {},
                           /*adopts=*/true},
                          acquisition.ttl};
        outgoing.adopted = std::move(done);
        outgoing.end = adoption->until;
        const Turn turn(*this);
        put_out(std::move(outgoing));
      },
      [this, adoption, seq](const Result<AdoptReply>& reply) { on_adopted(adoption, seq, reply); });
}

void Core::on_adopted(const std::shared_ptr<Adoption>& adoption, std::uint64_t seq,
                      const Result<AdoptReply>& answer) {
  const AcquisitionPtr& acquisition = adoption->acquisition;
  const auto fail = [&](Errc code, const std::string& why) {
    adoption->done(Error(code, lock_here(*acquisition) + ": " + why));
  };
  if (!answer) return adoption->done(answer.error());
  const Result<port::AcquisitionState>& reply = answer->state;
  if (!reply) {
    const Errc code = reply.error().code();
    const bool unanswered = detail::is_transient(code);
    adoption->may_be_ours = adoption->may_be_ours || code == Errc::kOutcomeUnknown;
    // Another lease's renewal could not wait for this batch. The adoption still has time of its
    // own.
    if (unanswered && answer->given_up && base::BootClock::now() < adoption->until) {
      return try_to_adopt(adoption);
    }
    if (unanswered && adoption->may_be_ours) {
      return fail(Errc::kOutcomeUnknown, reply.error().message());
    }
    return adoption->done(reply.error());
  }
  if (reply->status != port::AcquisitionStatus::kHeld) {
    return fail(Errc::kLost, "this lease does not hold it (any more)");
  }
  // The store has applied a request with a higher number, which another client sent. Ours extended
  // nothing, so no deadline may count from it.
  if (reply->seq > seq) {
    if (++adoption->overtaken == kAttempts) {
      return fail(Errc::kUnavailable, "another process renews this lease at the same time");
    }
    adoption->log = SendLog::starting_at(first_number_after(reply->seq));
    return try_to_adopt(adoption);
  }
  // A smaller number: the lease lasts longer than we asked for, so it was left as it is. Then it
  // is ours for at least a ttl from our send, like one that was extended.
  port::AcquisitionState state = *reply;
  state.seq = seq;
  state.lease = std::min(state.lease, acquisition->lease_at_store());
  {
    const Turn turn(*this);
    start_lease(acquisition, state, adoption->log);
    acquisition->wait = nullptr;
    if (outlives_close(acquisition)) acquisition->core = self();
  }
  if (acquisition->core == nullptr) return adoption->done(closed_error());
  adoption->done(acquisition);
}

}  // namespace holdfast::session
