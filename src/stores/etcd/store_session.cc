#include "src/stores/etcd/store_session.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "holdfast/detail/renewal_schedule.h"
#include "holdfast/detail/transient.h"
#include "src/base/random.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using base::BootInstant;
using namespace std::chrono_literals;

constexpr auto kOpening = 5s;       // The time for each of the two steps of one attempt.
constexpr auto kBeforeNext = 50ms;  // The pause before the next keepalive after a failed one.
constexpr auto kBetweenRevocations = 500ms;

}  // namespace

std::int64_t fresh_lease() {
  return static_cast<std::int64_t>(base::random_128().high & INT64_MAX) | 1;
}

StoreSession::StoreSession(Rpc& rpc, const Keys& keys, std::chrono::seconds length,
                           std::string owner)
    : rpc_(rpc), keys_(keys), length_(length), owner_(std::move(owner)) {}

void StoreSession::start(Told told) { told_ = std::move(told); }

StoreSession::View StoreSession::view() const {
  const base::LocalLock lock(mutex_);
  return view_;
}

std::int64_t StoreSession::lease() const {
  const base::LocalLock lock(mutex_);
  return lease_;
}

std::optional<StoreSession::Guard> StoreSession::guard(std::uint64_t epoch) const {
  const base::LocalLock lock(mutex_);
  if (epoch == 0 || view_.epoch != epoch) return std::nullopt;
  return Guard{lease_, generation_};
}

void StoreSession::set_generation(std::uint64_t epoch, std::int64_t generation) {
  const base::LocalLock lock(mutex_);
  if (view_.epoch == epoch) generation_ = std::max(generation_, generation);
}

void StoreSession::ensure(BootInstant, std::function<void(const Result<View>&)> then) {
  Result<View> answer = View{};
  {
    const base::LocalLock lock(mutex_);
    if (closing_) return;
    if (view_.epoch == 0) {
      waiting_.push_back(std::move(then));
      if (opening_) return;
      opening_ = true;
      then = nullptr;
    } else {
      answer = view_;
    }
  }
  if (then) return then(answer);
  open();
}

// --- Opening: a lease, then the session's own key on it.

void StoreSession::open() {
  const BootInstant sent = BootClock::now();
  wire::LeaseGrantRequest request;
  request.set_id(fresh_lease());
  request.set_ttl(length_.count());
  rpc_.call(std::move(request), How{sent + kOpening},
            [this, sent](const Result<wire::LeaseGrantResponse>& granted) {
              if (!granted) return open_failed(granted.error());
              put_key(granted->id(), sent, std::chrono::seconds(granted->ttl()));
            });
}

void StoreSession::put_key(std::int64_t lease, BootInstant sent, std::chrono::seconds granted) {
  wire::PutRequest request;
  request.set_key(keys_.session(lease));
  request.set_value(owner_);
  request.set_lease(lease);
  rpc_.call(std::move(request), How{BootClock::now() + kOpening},
            [this, lease, sent, granted](const Result<wire::PutResponse>& put) {
              if (put) return opened(lease, sent, granted, put->header().revision());
              see_off(lease);
              open_failed(put.error());
            });
}

void StoreSession::opened(std::int64_t lease, BootInstant sent, std::chrono::seconds granted,
                          std::int64_t generation) {
  const detail::RenewalSchedule schedule(granted);
  Waiting waiting;
  View view;
  {
    const base::LocalLock lock(mutex_);
    if (closing_) return;
    opening_ = false;
    lease_ = lease;
    generation_ = generation;
    // Counted from the send, because the server's count of the lease begins later.
    view_ = {++epochs_, /*in_doubt=*/false, granted, sent + granted, sent + schedule.renew_after()};
    view = view_;
    keeper_ = rpc_.server_in_use();
    waiting.swap(waiting_);
  }
  if (granted > length_) {
    told_.alarm("etcd: the servers' shortest lease is " + std::to_string(granted.count()) +
                " s: the session is that long");
  }
  watch_keys(view.epoch);
  rpc_.after(schedule.renew_after(), [this, epoch = view.epoch] { renew(epoch); });
  watch_deadline(view.epoch);
  for (const auto& then : waiting) then(view);
}

void StoreSession::open_failed(const Error& why) {
  Waiting waiting;
  {
    const base::LocalLock lock(mutex_);
    opening_ = false;
    waiting.swap(waiting_);
  }
  // If the lease was granted after all, nobody uses it, and it ends by itself. So the outcome does
  // not matter.
  const Errc code = why.code() == Errc::kOutcomeUnknown ? Errc::kUnavailable : why.code();
  for (const auto& then : waiting) then(Error(code, why.message()));
}

// --- Keeping.

void StoreSession::renew(std::uint64_t epoch) {
  std::int64_t lease = 0;
  std::size_t server = 0;
  BootInstant until;
  const BootInstant sent = BootClock::now();
  {
    const base::LocalLock lock(mutex_);
    if (closing_ || view_.epoch != epoch) return;
    lease = lease_;
    server = keeper_;
    // Short, so that other servers can be asked in time, at least twice.
    const detail::RenewalSchedule schedule(view_.length);
    until = std::min(sent + std::max<std::chrono::nanoseconds>(schedule.short_try_time(), 200ms),
                     view_.deadline);
  }
  rpc_.keep_alive(server, lease, until,
                  [this, epoch, sent, server](const Result<std::int64_t>& seconds_left) {
                    renewed(epoch, sent, server, seconds_left);
                  });
}

void StoreSession::renewed(std::uint64_t epoch, BootInstant sent, std::size_t server,
                           const Result<std::int64_t>& seconds_left) {
  if (!seconds_left) return renewal_failed(epoch, server, seconds_left.error());
  if (*seconds_left <= 0) return lost(epoch, "its lease has ended at the server");
  // Servers before 3.4.38, 3.5.23 and 3.6.5 may confirm a lease that has just ended. Its key shows
  // whether it has.
  wire::RangeRequest request;
  request.set_key(keys_.session(lease()));
  request.set_keys_only(true);
  const BootInstant until = view().deadline;
  rpc_.call(std::move(request), How{until, /*reads_only=*/true, std::nullopt},
            [this, epoch, sent, server,
             left = std::chrono::seconds(*seconds_left)](const Result<wire::RangeResponse>& range) {
              if (!range) return renewal_failed(epoch, server, range.error());
              if (range->kvs().empty()) return lost(epoch, "its key is gone at the server");
              confirmed(epoch, sent + left);
            });
}

void StoreSession::renewal_failed(std::uint64_t epoch, std::size_t server, const Error& why) {
  bool untold = false;
  {
    const base::LocalLock lock(mutex_);
    if (closing_ || view_.epoch != epoch) return;
    view_.in_doubt = true;
    keeper_ = (server + 1) % rpc_.servers();
    untold = why.code() == Errc::kPermissionDenied && !std::exchange(refused_, true);
  }
  if (untold) told_.alarm("etcd: the session cannot be renewed: " + why.message());
  if (rpc_.servers() > 1) rpc_.give_up_server(server);
  rpc_.after(kBeforeNext, [this, epoch] { renew(epoch); });
}

void StoreSession::confirmed(std::uint64_t epoch, BootInstant deadline) {
  std::chrono::nanoseconds next{};
  {
    const base::LocalLock lock(mutex_);
    if (closing_ || view_.epoch != epoch) return;
    view_.in_doubt = false;
    refused_ = false;
    view_.deadline = std::max(view_.deadline, deadline);
    view_.more_at = view_.deadline - detail::RenewalSchedule(view_.length).left_between_renewals();
    next = *view_.more_at - BootClock::now();
  }
  rpc_.after(std::max(next, 0ns), [this, epoch] { renew(epoch); });
}

void StoreSession::watch_deadline(std::uint64_t epoch) {
  std::chrono::nanoseconds left{};
  {
    const base::LocalLock lock(mutex_);
    if (closing_ || view_.epoch != epoch) return;
    left = view_.deadline - BootClock::now();
  }
  if (left <= 0ns) return lost(epoch, "it could not be renewed in time");
  rpc_.after(left, [this, epoch] { watch_deadline(epoch); });
}

void StoreSession::lost(std::uint64_t epoch, const std::string& why) {
  end(epoch, Error(Errc::kLost, "etcd: the session has ended: " + why));
}

void StoreSession::end(std::uint64_t epoch, const Error& why) {
  std::int64_t old = 0;
  std::vector<std::uint64_t> watches;
  bool reopen = false;
  {
    const base::LocalLock lock(mutex_);
    if (closing_ || view_.epoch != epoch || epoch == 0) return;
    view_ = {};
    old = lease_;
    watches.swap(watches_);
    reopen = !opening_;
    opening_ = true;
  }
  for (const std::uint64_t watch : watches) rpc_.end_watch(watch);
  told_.ended(epoch, why);
  see_off(old);
  if (reopen) open();
}

void StoreSession::fence(BootInstant deadline, std::function<void(const Result<void>&)> then) {
  View view;
  wire::TxnRequest request;
  {
    const base::LocalLock lock(mutex_);
    if (closing_) return;
    view = view_;
    wire::Compare& there = *request.add_compare();
    there.set_target(wire::Compare::VERSION);
    there.set_result(wire::Compare::GREATER);
    there.set_key(keys_.session(lease_));
    there.set_version(0);
    wire::PutRequest& put = *request.add_success()->mutable_request_put();
    put.set_key(keys_.session(lease_));
    put.set_value(owner_);
    put.set_lease(lease_);
  }
  // Without a session, no old request can have an effect.
  if (view.epoch == 0) return rpc_.after(0ns, [then = std::move(then)] { then({}); });
  rpc_.call(
      std::move(request), How{deadline},
      [this, epoch = view.epoch, then = std::move(then)](const Result<wire::TxnResponse>& done) {
        if (done && done->succeeded()) set_generation(epoch, done->header().revision());
        if (done && !done->succeeded()) lost(epoch, "its lease has ended at the server");
        if (!done && done.error().code() == Errc::kLost) lost(epoch, done.error().message());
        if (done || done.error().code() == Errc::kLost) return then({});
        then(done.error());
      });
}

// Watches the key of notifications, and the session's own key: so a session that the servers end is
// noticed at once, not at the next renewal.
void StoreSession::watch_keys(std::uint64_t epoch) {
  const std::int64_t own = lease();
  const std::uint64_t notifications =
      rpc_.watch(keys_.notify(lease_text(own)), {}, [this](const WatchNews& news) {
        // A notification before the watch existed, or while its stream was broken, was missed. So a
        // new watch counts as one.
        if (!news.events.empty() || (news.created && !news.refused)) told_.notified();
      });
  const std::uint64_t ends =
      rpc_.watch(keys_.session(own), {}, [this, epoch](const WatchNews& news) {
        for (const wire::Event& event : news.events) {
          if (event.type() == wire::Event::DELETE) lost(epoch, "its lease has ended at the server");
        }
      });
  const base::LocalLock lock(mutex_);
  watches_ = {notifications, ends};
}

// --- Leaving.

void StoreSession::revoke(std::int64_t lease, BootInstant deadline,
                          std::function<void(const Result<void>&)> then) {
  wire::LeaseRevokeRequest request;
  request.set_id(lease);
  rpc_.call(std::move(request), How{deadline},
            [then = std::move(then)](const Result<wire::LeaseRevokeResponse>& revoked) {
              then(revoked ? Result<void>() : revoked.error());
            });
}

// The lease may live on at the servers with all its keys, even for its whole time again after an
// election. So it is revoked until a server answers, however long that takes.
void StoreSession::see_off(std::int64_t lease) {
  {
    const base::LocalLock lock(mutex_);
    if (closing_) return;
  }
  revoke(lease, BootClock::now() + length_, [this, lease](const Result<void>& revoked) {
    const bool answered = revoked || !detail::is_transient(revoked.error().code());
    if (!answered) rpc_.after(kBetweenRevocations, [this, lease] { see_off(lease); });
  });
}

void StoreSession::close(BootInstant deadline) {
  std::int64_t lease = 0;
  {
    const base::LocalLock lock(mutex_);
    closing_ = true;
    lease = view_.epoch == 0 ? 0 : lease_;
  }
  if (lease == 0) return;
  auto revoked = std::make_shared<std::promise<void>>();
  auto done = revoked->get_future();
  revoke(lease, deadline, [revoked](const Result<void>&) { revoked->set_value(); });
  static_cast<void>(done.wait_for(deadline - BootClock::now()));
}

}  // namespace holdfast::stores::etcd
