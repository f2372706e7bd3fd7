// Contenders that are kept by leases of their own, which no keepalive prolongs: each renewal is a
// new lease, and one transaction that moves the key to it.
#include <chrono>
#include <utility>

#include "src/stores/etcd/backend.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using contend::Details;
using contend::Kept;
using contend::Read;

}  // namespace

struct EtcdBackend::Keeping {
  std::uint64_t epoch = 0;
  contend::Keep what;
  BootInstant deadline;
  Done<std::optional<Read>> done;
  std::int64_t lease = 0;                   // The new one.
  std::optional<std::int64_t> old_lease{};  // An own one from before.
};

void EtcdBackend::keep(std::uint64_t epoch, contend::Keep what, BootInstant deadline,
                       Done<std::optional<Read>> done) {
  const std::string lock = what.lock;
  const machine::AcquisitionId id = what.place.key.id;
  auto keeping = std::make_shared<Keeping>(
      Keeping{epoch, std::move(what), deadline, std::move(done), fresh_lease()});
  keeping->old_lease = parse_lease(keeping->what.details.kept->lease);
  Kept kept = *keeping->what.details.kept;
  kept.lease = lease_text(keeping->lease);
  keeping->what.details.kept = std::make_shared<const Kept>(std::move(kept));
  order_.run(lock, PerLockOrder::Kind::kOther, id, [this, keeping](std::function<void()> finished) {
    keeping->done = [done = std::move(keeping->done),
                     finished = std::move(finished)](Result<std::optional<Read>> read) {
      finished();
      done(std::move(read));
    };
    grant_lease(keeping);
  });
}

// The lease's time begins after the send of this request, so it ends after the time that its holder
// counts on.
void EtcdBackend::grant_lease(const std::shared_ptr<Keeping>& keeping) {
  when_settled(keeping->deadline, [this, keeping](const Result<void>& settled) {
    if (!settled) return fail(keeping->done, settled.error());
    wire::LeaseGrantRequest request;
    request.set_id(keeping->lease);
    request.set_ttl(
        std::chrono::ceil<std::chrono::seconds>(keeping->what.details.kept->ttl).count());
    rpc_->call(std::move(request), How{keeping->deadline},
               [this, keeping](const Result<wire::LeaseGrantResponse>& granted) {
                 if (granted) return send_keep(keeping, kAttempts);
                 // If it was granted after all, nothing is on it, and it ends by itself.
                 const bool unknown = granted.error().code() == Errc::kOutcomeUnknown;
                 const Errc code = unknown ? Errc::kUnavailable : granted.error().code();
                 keeping->done(Error(code, granted.error().message()));
               });
  });
}

void EtcdBackend::send_keep(const std::shared_ptr<Keeping>& keeping, int attempts) {
  when_settled(keeping->deadline, [this, keeping, attempts](const Result<void>& settled) {
    const auto guard = session_->guard(keeping->epoch);
    if (!settled || !guard) {
      revoke(keeping->lease);
      return fail(keeping->done, settled ? session_over() : settled.error());
    }
    const contend::Keep& what = keeping->what;
    const std::string key = key_of(what.lock, what.place);
    const std::uint64_t modified =
        what.place.modified != 0 ? what.place.modified : what.place.order;
    wire::TxnRequest txn;
    add_guard(txn, *guard);
    compare_created(txn, key, what.place.order);
    compare_modified(txn, key, static_cast<std::int64_t>(modified));
    put(txn, key, contend::to_text(what.details), keeping->lease);
    if (what.value) put(txn, keys_.value(what.lock), *what.value, 0);
    rpc_->call(std::move(txn), How{keeping->deadline},
               [this, keeping, attempts, guard](const Result<wire::TxnResponse>& answer) {
                 on_kept(keeping, attempts, *guard, answer);
               });
  });
}

void EtcdBackend::on_kept(const std::shared_ptr<Keeping>& keeping, int attempts,
                          const StoreSession::Guard& guard,
                          const Result<wire::TxnResponse>& answer) {
  if (!answer) {
    const Error& error = answer.error();
    // A lease that is not found is the new one: it has ended before the key was on it.
    if (error.code() == Errc::kLost) {
      return keeping->done(Error(Errc::kUnavailable, error.message()));
    }
    note(keeping->epoch, answer, /*may_have_written=*/true);
    // After an unknown outcome the key may be on the new lease, which stays then.
    if (error.code() != Errc::kOutcomeUnknown) revoke(keeping->lease);
    return keeping->done(error);
  }
  note(keeping->epoch, answer, /*may_have_written=*/true);
  if (answer->succeeded()) {
    if (keeping->old_lease) revoke(*keeping->old_lease);
    return keeping->done(std::optional(Read{keeping->what.details, keeping->what.place.order,
                                            number(answer->header().revision())}));
  }
  const Passed passed = this->passed(keeping->epoch, guard, answer->responses(0).response_range());
  if (passed == Passed::kWrittenSince && attempts > 1) return send_keep(keeping, attempts - 1);
  revoke(keeping->lease);
  switch (passed) {
    case Passed::kGone: return keeping->done(session_over());
    case Passed::kYes: return keeping->done(std::optional<Read>());
    case Passed::kWrittenSince: break;
  }
  keeping->done(
      Error(Errc::kUnavailable, "etcd: the session changed during each attempt; try again"));
}

void EtcdBackend::end_kept_lease(const std::string& lease) {
  if (const auto number = parse_lease(lease)) revoke(*number);
}

// No key is on it, so only the servers' memory is at stake: otherwise it ends by itself.
void EtcdBackend::revoke(std::int64_t lease) {
  wire::LeaseRevokeRequest request;
  request.set_id(lease);
  rpc_->call(std::move(request), How{BootClock::now() + std::chrono::seconds(5)},
             [](const Result<wire::LeaseRevokeResponse>&) {});
}

}  // namespace holdfast::stores::etcd
