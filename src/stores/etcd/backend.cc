#include "src/stores/etcd/backend.h"

#include <algorithm>
#include <utility>

#include "src/base/random.h"
#include "src/stores/etcd/doctor.h"
#include "src/stores/etcd/promises.h"
#include "src/stores/etcd/watched_read.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using base::BootInstant;
using contend::Change;
using contend::Details;
using contend::Entered;
using contend::Key;
using contend::Listing;
using contend::Place;
using contend::Read;
using contend::Record;
using contend::Value;
using contend::WakerPtr;
using Kind = Lanes::Kind;

constexpr int kAttempts = 3;

wire::RangeRequest one_key(const std::string& key) {
  wire::RangeRequest request;
  request.set_key(key);
  return request;
}

void compare_created(wire::TxnRequest& txn, const std::string& key, std::uint64_t created) {
  wire::Compare& compare = *txn.add_compare();
  compare.set_target(wire::Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(static_cast<std::int64_t>(created));
}

void compare_modified(wire::TxnRequest& txn, const std::string& key, std::int64_t modified) {
  wire::Compare& compare = *txn.add_compare();
  compare.set_target(wire::Compare::MOD);
  compare.set_key(key);
  compare.set_mod_revision(modified);
}

void compare_there(wire::TxnRequest& txn, const std::string& key) {
  wire::Compare& compare = *txn.add_compare();
  compare.set_target(wire::Compare::VERSION);
  compare.set_result(wire::Compare::GREATER);
  compare.set_key(key);
  compare.set_version(0);
}

void put(wire::TxnRequest& txn, const std::string& key, const std::string& value,
         std::int64_t lease) {
  wire::PutRequest& request = *txn.add_success()->mutable_request_put();
  request.set_key(key);
  request.set_value(value);
  request.set_lease(lease);
}

std::uint64_t number(std::int64_t revision) { return static_cast<std::uint64_t>(revision); }

Result<std::optional<Read>> read_of(const wire::RangeResponse& range, bool foreign) {
  if (range.kvs().empty()) return std::optional<Read>();
  const wire::KeyValue& kv = range.kvs(0);
  Read read;
  read.created = number(kv.create_revision());
  read.modified = number(kv.mod_revision());
  if (!foreign) {
    auto details = contend::parse_details(kv.value());
    if (!details) return details.error();
    read.details = *std::move(details);
  }
  return std::optional<Read>(std::move(read));
}

Error unknown_to_the_recipe() {
  return {Errc::kUnsupported,
          "etcd: with recipe=etcd there are exclusive locks only: other clients know no more"};
}

// Nothing was sent.
Error not_sent(const Error& why) {
  return {why.code() == Errc::kOutcomeUnknown ? Errc::kUnavailable : why.code(), why.message()};
}

}  // namespace

EtcdBackend::EtcdBackend(EtcdAddress address, std::unique_ptr<Rpc> rpc,
                         const port::StoreContext& context)
    : address_(std::move(address)),
      keys_(address_.prefix, address_.foreign_recipe),
      loop_(context.loop),
      rpc_(std::move(rpc)),
      session_(std::make_unique<Session>(*rpc_, keys_, address_.session_ttl, context.owner)) {}

EtcdBackend::~EtcdBackend() {
  if (rpc_) rpc_->close();
}

void EtcdBackend::post(std::function<void()> task) {
  loop_->post([alive = std::weak_ptr(alive_), task = std::move(task)] {
    if (alive.lock()) task();
  });
}

template <typename T>
std::function<void(Result<T>)> EtcdBackend::on_loop(Done<T> done) {
  return [this, done = std::move(done)](Result<T> answer) {
    post([done, answer = std::move(answer)]() mutable { done(std::move(answer)); });
  };
}

template <typename T>
void EtcdBackend::fail(const Done<T>& done, Error why) {
  post([done, why = std::move(why)] { done(why); });
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
       [this] { post([this] { events_->on_knock(); }); },
       [this](const std::string& line) { post([this, line] { events_->on_alarm(line); }); }});
}

void EtcdBackend::ensure_session(BootInstant deadline, Done<contend::SessionView> done) {
  session_->ensure(deadline, on_loop<contend::SessionView>(std::move(done)));
}

template <typename T>
void EtcdBackend::note(std::uint64_t epoch, const Result<T>& answer, bool may_have_written) {
  if (answer) {
    seen_ = std::max(seen_, answer->header().revision());
  } else if (answer.error().code() == Errc::kLost) {
    session_->lost(epoch, answer.error().message());
  } else if (may_have_written && answer.error().code() == Errc::kOutcomeUnknown) {
    unsettled_ = true;
  }
}

void EtcdBackend::when_settled(BootInstant deadline,
                               std::function<void(const Result<void>&)> then) {
  if (!unsettled_) return then({});
  settling_.emplace_back(deadline, std::move(then));
  if (settling_.size() > 1) return;
  session_->fence(deadline, on_loop<void>([this](const Result<void>& done) {
                    if (done) unsettled_ = false;
                    auto waiting = std::exchange(settling_, {});
                    const Result<void> told = done ? Result<void>() : not_sent(done.error());
                    for (const auto& [until, go_on] : waiting) go_on(told);
                  }));
}

void EtcdBackend::add_guard(wire::TxnRequest& txn) const {
  const std::string key = keys_.session(session_->lease());
  compare_modified(txn, key, session_->generation());
  *txn.add_failure()->mutable_request_range() = one_key(key);
}

EtcdBackend::Guard EtcdBackend::guard_of(std::uint64_t epoch,
                                         const wire::RangeResponse& session_key) {
  if (session_key.kvs().empty()) {
    session_->lost(epoch, "its lease has ended at the server");
    return Guard::kGone;
  }
  const std::int64_t written = session_key.kvs(0).mod_revision();
  if (written == session_->generation()) return Guard::kPassed;
  session_->set_generation(epoch, written);
  return Guard::kWrittenSince;
}

// --- Folders.

std::string EtcdBackend::key_of(const std::string& lock, const Place& place) const {
  if (place.key.id) return keys_.contenders(lock) + contend::to_text(place.key);
  const auto folder = foreign_.find(lock);
  if (folder == foreign_.end()) return {};
  const auto key = folder->second.find(place.order);
  return key == folder->second.end() ? std::string() : key->second;
}

wire::RangeRequest EtcdBackend::folder_request(const std::string& lock, bool full) const {
  const std::string contenders = keys_.contenders(lock);
  wire::RangeRequest request;
  // From the record on, which stands right before its contenders.
  request.set_key(keys_.foreign_recipe() ? contenders : keys_.record(lock));
  request.set_range_end(behind(contenders));
  request.set_keys_only(!full);
  return request;
}

contend::Listing EtcdBackend::listing_of(const std::string& lock, const wire::RangeResponse& range,
                                         bool full) {
  const std::string contenders = keys_.contenders(lock);
  const std::string record = keys_.foreign_recipe() ? std::string() : keys_.record(lock);
  Listing listing;
  listing.in_full = full;
  if (keys_.foreign_recipe()) foreign_.erase(lock);
  for (const wire::KeyValue& kv : range.kvs()) {
    if (kv.key() == record) {
      listing.record_rev = number(kv.mod_revision());
      if (full) {
        if (auto parsed = contend::parse_record(kv.value())) listing.record = *std::move(parsed);
      }
      continue;
    }
    if (!kv.key().starts_with(contenders)) continue;
    auto key = contend::parse_key(std::string_view(kv.key()).substr(contenders.size()));
    if (!key && !keys_.foreign_recipe()) continue;
    Place place;
    place.order = place.created = number(kv.create_revision());
    place.modified = number(kv.mod_revision());
    if (key) {
      place.key = *std::move(key);
    } else {
      foreign_[lock][place.order] = kv.key();
    }
    if (full) {
      auto details = key ? contend::parse_details(kv.value()) : Result<Details>(Details{});
      place.details = details ? *std::move(details) : Details{};
    }
    listing.queue.push_back(std::move(place));
  }
  if (!listing.record && listing.record_rev == 0) listing.record = Record{};
  std::sort(listing.queue.begin(), listing.queue.end(),
            [](const Place& a, const Place& b) { return a.order < b.order; });
  return listing;
}

void EtcdBackend::list(std::string lock, bool latest, WakerPtr waker, BootInstant deadline,
                       Done<Listing> done) {
  const std::string contenders = keys_.contenders(lock);
  read_watched(contenders, behind(contenders), folder_request(lock, /*full=*/false), latest,
               std::move(waker), deadline,
               [this, lock, done = std::move(done)](const Result<wire::RangeResponse>& range) {
                 if (!range) return done(range.error());
                 done(listing_of(lock, *range, /*full=*/false));
               });
}

void EtcdBackend::list_in_full(std::string lock, BootInstant deadline, Done<Listing> done) {
  read_watched({}, {}, folder_request(lock, /*full=*/true), /*latest=*/true, nullptr, deadline,
               [this, lock, done = std::move(done)](const Result<wire::RangeResponse>& range) {
                 if (!range) return done(range.error());
                 done(listing_of(lock, *range, /*full=*/true));
               });
}

// --- Contenders.

void EtcdBackend::enter(std::uint64_t epoch, std::string lock, Key key, Details details,
                        BootInstant deadline, Done<Entered> done) {
  if (keys_.foreign_recipe() && key.shape != contend::Shape::kExclusive) {
    return fail(done, unknown_to_the_recipe());
  }
  lanes_.run(lock, Kind::kEnter, key.id,
             [this, epoch, lock, key, details = std::move(details), deadline,
              done = std::move(done)](std::function<void()> finished) {
               send_enter(epoch, lock, key, details, deadline, kAttempts,
                          [done, finished = std::move(finished)](Result<Entered> entered) {
                            finished();
                            done(std::move(entered));
                          });
             });
}

void EtcdBackend::send_enter(std::uint64_t epoch, const std::string& lock, const Key& key,
                             const Details& details, BootInstant deadline, int attempts,
                             Done<Entered> done) {
  when_settled(deadline, [=, this, done = std::move(done)](const Result<void>& settled) {
    if (!settled) return fail(done, settled.error());
    if (!is_current(epoch)) return fail(done, session_over());
    const std::string place = keys_.contenders(lock) + contend::to_text(key);
    wire::TxnRequest txn;
    add_guard(txn);
    compare_created(txn, place, 0);
    put(txn, place, contend::to_text(details), session_->lease());
    *txn.add_success()->mutable_request_range() = folder_request(lock, /*full=*/false);
    *txn.add_failure()->mutable_request_range() = folder_request(lock, /*full=*/false);
    rpc_->call(std::move(txn), How{deadline},
               on_loop<wire::TxnResponse>([=, this](const Result<wire::TxnResponse>& answer) {
                 note(epoch, answer, /*may_have_written=*/true);
                 if (!answer) return done(answer.error());
                 Entered entered;
                 entered.listing = listing_of(lock, answer->responses(1).response_range(), false);
                 for (const Place& each : entered.listing.queue) {
                   if (each.key == key) entered.created = each.order;
                 }
                 if (entered.created != 0) return done(std::move(entered));
                 switch (guard_of(epoch, answer->responses(0).response_range())) {
                   case Guard::kGone: return done(session_over());
                   case Guard::kPassed:
                   case Guard::kWrittenSince: break;
                 }
                 if (attempts > 1) {
                   return send_enter(epoch, lock, key, details, deadline, attempts - 1, done);
                 }
                 done(Error(Errc::kUnavailable, "etcd: the session changes all the time"));
               }));
  });
}

void EtcdBackend::read(std::string lock, Place place, WakerPtr waker, BootInstant deadline,
                       Done<std::optional<Read>> done) {
  const std::string key = key_of(lock, place);
  if (key.empty()) {
    post([done] { done(std::optional<Read>()); });
    return;
  }
  read_watched(
      key, {}, one_key(key), /*latest=*/false, std::move(waker), deadline,
      [foreign = !place.key.id, done = std::move(done)](const Result<wire::RangeResponse>& range) {
        if (!range) return done(range.error());
        done(read_of(*range, foreign));
      });
}

void EtcdBackend::write(std::uint64_t epoch, std::string lock, Place place, Details details,
                        BootInstant deadline, Done<std::optional<Read>> done) {
  const machine::AcquisitionId id = place.key.id;
  lanes_.run(lock, Kind::kOther, id,
             [this, epoch, lock, place = std::move(place), details = std::move(details), deadline,
              done = std::move(done)](std::function<void()> finished) {
               send_write(epoch, lock, place, details, deadline, kAttempts,
                          [done, finished = std::move(finished)](Result<std::optional<Read>> read) {
                            finished();
                            done(std::move(read));
                          });
             });
}

void EtcdBackend::send_write(std::uint64_t epoch, const std::string& lock, const Place& place,
                             const Details& details, BootInstant deadline, int attempts,
                             Done<std::optional<Read>> done) {
  when_settled(deadline, [=, this, done = std::move(done)](const Result<void>& settled) {
    if (!settled) return fail(done, settled.error());
    if (!is_current(epoch)) return fail(done, session_over());
    const std::string key = keys_.contenders(lock) + contend::to_text(place.key);
    wire::TxnRequest txn;
    add_guard(txn);
    compare_created(txn, key, place.order);
    put(txn, key, contend::to_text(details), session_->lease());
    rpc_->call(std::move(txn), How{deadline},
               on_loop<wire::TxnResponse>([=, this](const Result<wire::TxnResponse>& answer) {
                 note(epoch, answer, /*may_have_written=*/true);
                 if (!answer) return done(answer.error());
                 if (answer->succeeded()) {
                   return done(std::optional(
                       Read{details, place.order, number(answer->header().revision())}));
                 }
                 switch (guard_of(epoch, answer->responses(0).response_range())) {
                   case Guard::kGone: return done(session_over());
                   case Guard::kPassed: return done(std::optional<Read>());
                   case Guard::kWrittenSince: break;
                 }
                 if (attempts > 1) {
                   return send_write(epoch, lock, place, details, deadline, attempts - 1, done);
                 }
                 done(Error(Errc::kUnavailable, "etcd: the session changes all the time"));
               }));
  });
}

void EtcdBackend::remove(std::uint64_t epoch, std::string lock, Place place, BootInstant deadline,
                         Done<bool> done) {
  const std::string key = keys_.contenders(lock) + contend::to_text(place.key);
  lanes_.run(lock, Kind::kRemove, place.key.id,
             [=, this, done = std::move(done)](std::function<void()> finished) {
               wire::DeleteRangeRequest request;
               request.set_key(key);
               rpc_->call(std::move(request), How{deadline},
                          on_loop<wire::DeleteRangeResponse>(
                              [this, epoch, done, finished = std::move(finished)](
                                  const Result<wire::DeleteRangeResponse>& answer) {
                                finished();
                                // A late one does no harm: its key is nobody else's.
                                note(epoch, answer, /*may_have_written=*/false);
                                if (!answer) return done(answer.error());
                                done(answer->deleted() > 0);
                              }));
             });
}

// --- Beside the contenders.

void EtcdBackend::read_record(std::string lock, BootInstant deadline,
                              Done<std::pair<Record, std::uint64_t>> done) {
  if (keys_.foreign_recipe()) {
    post([done] { done(std::pair(Record{}, std::uint64_t{0})); });
    return;
  }
  read_watched({}, {}, one_key(keys_.record(lock)), /*latest=*/false, nullptr, deadline,
               [done = std::move(done)](const Result<wire::RangeResponse>& range) {
                 if (!range) return done(range.error());
                 if (range->kvs().empty()) return done(std::pair(Record{}, std::uint64_t{0}));
                 auto record = contend::parse_record(range->kvs(0).value());
                 if (!record) return done(record.error());
                 done(std::pair(*std::move(record), number(range->kvs(0).mod_revision())));
               });
}

void EtcdBackend::read_value(std::string lock, BootInstant deadline, Done<Value> done) {
  if (keys_.foreign_recipe()) return fail(done, unknown_to_the_recipe());
  read_watched({}, {}, one_key(keys_.value(lock)), /*latest=*/true, nullptr, deadline,
               [done = std::move(done)](const Result<wire::RangeResponse>& range) {
                 if (!range) return done(range.error());
                 Value value;
                 if (!range->kvs().empty()) {
                   value = {range->kvs(0).value(), number(range->kvs(0).mod_revision())};
                 }
                 done(std::move(value));
               });
}

void EtcdBackend::apply(Change change, BootInstant deadline,
                        Done<std::optional<std::uint64_t>> done) {
  if (keys_.foreign_recipe()) return fail(done, unknown_to_the_recipe());
  auto kept = std::make_shared<Change>(std::move(change));
  lanes_.run(kept->lock, Kind::kStep, {},
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
    if (!is_current(change->epoch)) return fail(done, session_over());
    wire::TxnRequest txn;
    add_guard(txn);
    const std::string record = keys_.record(change->lock);
    const std::string value = keys_.value(change->lock);
    if (change->record_rev) {
      compare_modified(txn, record, static_cast<std::int64_t>(*change->record_rev));
    }
    if (change->present) {
      compare_there(txn, key_of(change->lock, *change->present));
    }
    if (change->value_rev) {
      compare_modified(txn, value, static_cast<std::int64_t>(*change->value_rev));
    }
    if (change->record) put(txn, record, contend::to_text(*change->record), 0);
    if (change->value) put(txn, value, *change->value, 0);
    for (const Place& place : change->removed) {
      const std::string key = key_of(change->lock, place);
      compare_there(txn, key);
      txn.add_success()->mutable_request_delete_range()->set_key(key);
    }
    rpc_->call(std::move(txn), How{deadline},
               on_loop<wire::TxnResponse>([=, this](const Result<wire::TxnResponse>& answer) {
                 note(change->epoch, answer, /*may_have_written=*/true);
                 if (!answer) return done(answer.error());
                 if (answer->succeeded()) {
                   return done(std::optional(number(answer->header().revision())));
                 }
                 switch (guard_of(change->epoch, answer->responses(0).response_range())) {
                   case Guard::kGone: return done(session_over());
                   case Guard::kPassed: return done(std::optional<std::uint64_t>());
                   case Guard::kWrittenSince: break;
                 }
                 if (attempts > 1) return send_apply(change, deadline, attempts - 1, done);
                 done(Error(Errc::kUnavailable, "etcd: the session changes all the time"));
               }));
  });
}

void EtcdBackend::knock(std::string session_tag) {
  const auto lease = parse_lease(session_tag);
  if (!lease) return;
  wire::PutRequest request;
  request.set_key(keys_.knock(session_tag));
  request.set_value(base::to_hex(base::random_128().high, 0).substr(0, 16));
  // It goes with the session that it is for; of one that has gone nothing is left to tell.
  request.set_lease(*lease);
  rpc_->call(std::move(request), How{BootClock::now() + std::chrono::seconds(5)},
             [](const Result<wire::PutResponse>&) {});
}

// --- All locks.

struct EtcdBackend::Locks {
  std::string next;
  std::string end;
  std::string prefix;
  std::size_t limit = 0;
  BootInstant deadline;
  std::vector<std::string> names;
  Done<std::vector<std::string>> done;
};

void EtcdBackend::list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                             Done<std::vector<std::string>> done) {
  if (keys_.foreign_recipe()) return fail(done, unknown_to_the_recipe());
  auto all = std::make_shared<Locks>();
  all->next = keys_.folders(prefix);
  all->end = behind(keys_.folders(""));
  all->prefix = std::move(prefix);
  all->limit = limit;
  all->deadline = deadline;
  all->done = std::move(done);
  list_more(all);
}

void EtcdBackend::list_more(const std::shared_ptr<Locks>& all) {
  constexpr std::int64_t kAtOnce = 512;
  wire::RangeRequest request;
  request.set_key(all->next);
  request.set_range_end(all->end);
  request.set_limit(kAtOnce);
  request.set_keys_only(true);
  read_watched({}, {}, std::move(request), /*latest=*/true, nullptr, all->deadline,
               [this, all](const Result<wire::RangeResponse>& range) {
                 if (!range) return all->done(range.error());
                 bool over = !range->more();
                 for (const wire::KeyValue& kv : range->kvs()) {
                   auto folder = keys_.folder_of(kv.key());
                   all->next = folder ? folder->end : kv.key() + '\0';
                   if (!folder) continue;
                   if (!folder->lock.starts_with(all->prefix)) {
                     over = true;
                     break;
                   }
                   if (!all->names.empty() && all->names.back() == folder->lock) continue;
                   if (all->names.size() == all->limit) {
                     over = true;
                     break;
                   }
                   all->names.push_back(std::move(folder->lock));
                 }
                 if (!over) return list_more(all);
                 std::sort(all->names.begin(), all->names.end());
                 all->done(std::move(all->names));
               });
}

// --- The rest.

Guarantees EtcdBackend::guarantees() const { return promises(keys_.foreign_recipe()); }

void EtcdBackend::probe(BootInstant deadline, Done<std::vector<Finding>> done) {
  examine(*rpc_, address_, keys_, address_.session_ttl, deadline,
          on_loop<std::vector<Finding>>(std::move(done)));
}

void EtcdBackend::close(BootInstant deadline) {
  session_->close(deadline);
  rpc_->close();
}

void EtcdBackend::abandon_after_fork() noexcept {
  // The threads of gRPC are not in the child: whatever is touched there could wait for them.
  static_cast<void>(rpc_.release());
}

}  // namespace holdfast::stores::etcd
