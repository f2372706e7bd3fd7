#include "src/stores/etcd/backend.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>

#include "holdfast/detail/transient.h"
#include "src/base/random.h"
#include "src/stores/etcd/doctor.h"
#include "src/stores/etcd/guarantees.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using base::BootInstant;
using contend::Change;
using contend::Details;
using contend::Entered;
using contend::Key;
using contend::Listing;
using contend::QueueEntry;
using contend::Read;
using contend::Record;
using Kind = PerLockOrder::Kind;

// The time of one attempt to find the outcome after a lost answer, and the pause before the next,
// perhaps at another server.
constexpr auto kFenceTry = std::chrono::seconds(2);
constexpr auto kBetweenFences = std::chrono::milliseconds(100);

}  // namespace

EtcdBackend::EtcdBackend(EtcdAddress address, std::unique_ptr<Rpc> rpc,
                         const port::StoreContext& context)
    : keys_(address.prefix, address.foreign_recipe),
      address_(std::move(address)),
      loop_(context.loop),
      rpc_(std::move(rpc)),
      session_(std::make_unique<StoreSession>(*rpc_, keys_, address_.session_ttl, context.owner)) {}

EtcdBackend::~EtcdBackend() {
  if (rpc_) rpc_->close();
}

void EtcdBackend::post(std::function<void()> task) {
  loop_->post([alive = std::weak_ptr(alive_), task = std::move(task)] {
    if (alive.lock()) task();
  });
}

Error EtcdBackend::session_over() const {
  return {Errc::kLost, "etcd: the session that the request belongs to has ended"};
}

// --- The session.

void EtcdBackend::start(contend::Events* events) {
  events_ = events;
  session_->start(
      {[this](std::uint64_t epoch, const Error& why) {
         post([this, epoch, why] { events_->on_session_ended(epoch, why); });
       },
       [this] { post([this] { events_->on_notify(); }); },
       [this](const std::string& line) { post([this, line] { events_->on_alarm(line); }); }});
}

void EtcdBackend::ensure_session(BootInstant deadline, Done<contend::SessionView> done) {
  session_->ensure(deadline, on_loop<contend::SessionView>(std::move(done)));
}

void EtcdBackend::when_settled(BootInstant deadline,
                               std::function<void(const Result<void>&)> then) {
  if (!unsettled_) return then({});
  settling_.emplace_back(deadline, std::move(then));
  rpc_->after(std::max(deadline - BootClock::now(), BootInstant::duration::zero()),
              [this] { give_up_late(); });
  fence();
}

// One fence serves all waiting requests, so it has a deadline of its own. It is repeated while one
// of them has time left.
void EtcdBackend::fence() {
  if (fencing_ || settling_.empty()) return;
  fencing_ = true;
  session_->fence(BootClock::now() + kFenceTry, on_loop<void>([this](const Result<void>& done) {
                    fencing_ = false;
                    if (done) unsettled_ = false;
                    const bool passing = !done && detail::is_transient(done.error().code());
                    if (!passing) return tell_settled(done);
                    unsettled_by_ = done.error().message();
                    rpc_->after(kBetweenFences, [this] { fence(); });
                  }));
}

void EtcdBackend::tell_settled(const Result<void>& settled) {
  auto waiting = std::exchange(settling_, {});
  for (const auto& [until, go_on] : waiting) go_on(settled);
}

void EtcdBackend::give_up_late() {
  const auto late = std::stable_partition(
      settling_.begin(), settling_.end(),
      [now = BootClock::now()](const auto& each) { return each.first > now; });
  const decltype(settling_) given_up(std::make_move_iterator(late),
                                     std::make_move_iterator(settling_.end()));
  settling_.erase(late, settling_.end());
  const Error why(Errc::kUnavailable,
                  "etcd: the outcome of an earlier request was not known in time" +
                      (unsettled_by_.empty() ? std::string() : ": " + unsettled_by_));
  for (const auto& [until, go_on] : given_up) go_on(why);
}

void EtcdBackend::add_guard(wire::TxnRequest& txn, const StoreSession::Guard& guard) const {
  const std::string key = keys_.session(guard.lease);
  compare_modified(txn, key, guard.generation);
  *txn.add_failure()->mutable_request_range() = one_key(key);
}

EtcdBackend::Passed EtcdBackend::passed(std::uint64_t epoch, const StoreSession::Guard& guard,
                                        const wire::RangeResponse& session_key) {
  if (session_key.kvs().empty()) {
    session_->lost(epoch, "its lease has ended at the server");
    return Passed::kGone;
  }
  const std::int64_t written = session_key.kvs(0).mod_revision();
  if (written == guard.generation) return Passed::kYes;
  session_->set_generation(epoch, written);
  return Passed::kWrittenSince;
}

// --- Folders.

std::string EtcdBackend::key_of(const std::string& lock, const QueueEntry& place) const {
  return keys_.contenders(lock) + contend::to_text(place.key);
}

wire::RangeRequest EtcdBackend::folder_request(const std::string& lock, bool full) const {
  wire::RangeRequest request;
  // The range begins with the record, because its key comes right before the contenders' keys.
  request.set_key(full ? keys_.folder(lock) : keys_.record(lock));
  request.set_range_end(behind(full ? keys_.folder(lock) : keys_.contenders(lock)));
  request.set_keys_only(!full);
  return request;
}

// --- Contenders. (Entries and removals: backend_batch.cc.)

void EtcdBackend::write(std::uint64_t epoch, std::string lock, QueueEntry place, Details details,
                        BootInstant deadline, Done<std::optional<Read>> done) {
  const machine::AcquisitionId id = place.key.id;
  order_.run(lock, Kind::kOther, id,
             [this, epoch, lock, place = std::move(place), details = std::move(details), deadline,
              done = std::move(done)](std::function<void()> finished) {
               send_write(epoch, lock, place, details, deadline, kAttempts,
                          [done, finished = std::move(finished)](Result<std::optional<Read>> read) {
                            finished();
                            done(std::move(read));
                          });
             });
}

void EtcdBackend::send_write(std::uint64_t epoch, const std::string& lock, const QueueEntry& place,
                             const Details& details, BootInstant deadline, int attempts,
                             Done<std::optional<Read>> done) {
  when_settled(deadline, [=, this, done = std::move(done)](const Result<void>& settled) {
    if (!settled) return fail(done, settled.error());
    const auto guard = session_->guard(epoch);
    if (!guard) return fail(done, session_over());
    const std::string key = keys_.contenders(lock) + contend::to_text(place.key);
    wire::TxnRequest txn;
    add_guard(txn, *guard);
    // The write is refused if the contender has gone, or if it is another session's by now.
    compare_created(txn, key, place.order);
    compare_lease(txn, key, guard->lease);
    put(txn, key, contend::to_text(details), guard->lease);
    rpc_->call(std::move(txn), How{deadline}, [=, this](const Result<wire::TxnResponse>& answer) {
      note(epoch, answer, /*may_have_written=*/true);
      if (!answer) return done(answer.error());
      if (answer->succeeded()) {
        return done(std::optional(Read{details, place.order, number(answer->header().revision())}));
      }
      switch (passed(epoch, *guard, answer->responses(0).response_range())) {
        case Passed::kGone: return done(session_over());
        case Passed::kYes: return done(std::optional<Read>());
        case Passed::kWrittenSince: break;
      }
      if (attempts > 1) {
        return send_write(epoch, lock, place, details, deadline, attempts - 1, done);
      }
      done(Error(Errc::kUnavailable, "etcd: the session changed during each attempt; try again"));
    });
  });
}

// --- Beside the contenders.

void EtcdBackend::apply(Change change, BootInstant deadline,
                        Done<std::optional<std::uint64_t>> done) {
  auto kept = std::make_shared<Change>(std::move(change));
  order_.run(kept->lock, Kind::kStep, {},
             [this, kept, deadline, done = std::move(done)](std::function<void()> finished) {
               send_apply(kept, deadline, kAttempts,
                          [done, finished = std::move(finished)](
                              Result<std::optional<std::uint64_t>> step) {
                            finished();
                            done(std::move(step));
                          });
             });
}

void EtcdBackend::send_apply(std::shared_ptr<Change> change, BootInstant deadline, int attempts,
                             Done<std::optional<std::uint64_t>> done) {
  when_settled(deadline, [=, this, done = std::move(done)](const Result<void>& settled) {
    if (!settled) return fail(done, settled.error());
    // A change of the record or value alone belongs to no session, so it needs no guard.
    const bool guarded = change->epoch != 0;
    const auto guard = session_->guard(change->epoch);
    if (guarded && !guard) return fail(done, session_over());
    wire::TxnRequest txn;
    if (guarded) add_guard(txn, *guard);
    const std::string record = keys_.record(change->lock);
    const std::string value = keys_.value(change->lock);
    if (change->record_rev) {
      compare_modified(txn, record, static_cast<std::int64_t>(*change->record_rev));
    }
    if (change->present) {
      compare_created(txn, key_of(change->lock, *change->present), change->present->order);
    }
    if (change->value_rev) {
      compare_modified(txn, value, static_cast<std::int64_t>(*change->value_rev));
    }
    if (change->record) put(txn, record, contend::to_text(*change->record), 0);
    if (change->value) put(txn, value, *change->value, 0);
    for (const QueueEntry& place : change->removed) {
      const std::string key = key_of(change->lock, place);
      // The entry of another program, which a newer listing no longer had.
      if (key.empty()) return post([done] { done(std::optional<std::uint64_t>()); });
      compare_created(txn, key, place.order);
      txn.add_success()->mutable_request_delete_range()->set_key(key);
    }
    rpc_->call(std::move(txn), How{deadline}, [=, this](const Result<wire::TxnResponse>& answer) {
      note(change->epoch, answer, /*may_have_written=*/true);
      if (!answer) return done(answer.error());
      if (answer->succeeded()) {
        return done(std::optional(number(answer->header().revision())));
      }
      if (!guarded) return done(std::optional<std::uint64_t>());
      switch (passed(change->epoch, *guard, answer->responses(0).response_range())) {
        case Passed::kGone: return done(session_over());
        case Passed::kYes: return done(std::optional<std::uint64_t>());
        case Passed::kWrittenSince: break;
      }
      if (attempts > 1) return send_apply(change, deadline, attempts - 1, done);
      done(Error(Errc::kUnavailable, "etcd: the session changed during each attempt; try again"));
    });
  });
}

void EtcdBackend::notify(std::string session_tag, std::function<void()> then) {
  const auto lease = parse_lease(session_tag);
  if (!lease) return post(std::move(then));
  wire::PutRequest request;
  request.set_key(keys_.notify(session_tag));
  request.set_value(base::to_hex(base::random_128().high, 0).substr(0, 16));
  // The key ends with the session that it notifies. If that session has ended, nobody needs the
  // notification.
  request.set_lease(*lease);
  rpc_->call(std::move(request), How{BootClock::now() + std::chrono::seconds(5)},
             [then = std::move(then)](const Result<wire::PutResponse>&) { then(); });
}

// --- The rest.

Guarantees EtcdBackend::guarantees() const { return etcd::guarantees(address_.session_ttl); }

void EtcdBackend::look_at_servers(BootInstant deadline, Done<contend::Servers> done) {
  rpc_->call(wire::MemberListRequest(), How{deadline, /*reads_only=*/true, std::nullopt},
             [done = std::move(done)](const Result<wire::MemberListResponse>& members) {
               if (!members) return done(members.error());
               const auto voting =
                   std::count_if(members->members().begin(), members->members().end(),
                                 [](const wire::Member& each) { return !each.islearner(); });
               done(contend::Servers::on_disk(static_cast<std::size_t>(voting)));
             });
}

void EtcdBackend::probe(BootInstant deadline, Done<std::vector<Finding>> done) {
  examine(*rpc_, address_, keys_, address_.session_ttl, deadline,
          on_loop<std::vector<Finding>>(std::move(done)));
}

void EtcdBackend::close(BootInstant deadline) {
  session_->close(deadline);
  rpc_->close();
  // The backend is destroyed next, but earlier answers may still be in the loop's queue. They run
  // before this task, or not at all.
  std::promise<void> drained;
  auto waiting = drained.get_future();
  loop_->post([this, &drained] {
    alive_.reset();
    drained.set_value();
  });
  waiting.wait();
}

void EtcdBackend::abandon_after_fork() noexcept {
  // The child has no thread that runs the loop, and any call could wait for it. So the objects are
  // leaked.
  static_cast<void>(rpc_.release());
  static_cast<void>(session_.release());
}

}  // namespace holdfast::stores::etcd
