// The reads of the backend, and their watches.
#include <algorithm>
#include <utility>

#include "src/stores/etcd/backend.h"
#include "src/stores/etcd/watched_read.h"

namespace holdfast::stores::etcd {
namespace {

using contend::Details;
using contend::Listing;
using contend::QueueEntry;
using contend::Read;
using contend::Record;
using contend::Value;
using contend::WakerPtr;

}  // namespace

Result<contend::Listing> EtcdBackend::listing_of(const std::string& lock,
                                                 const wire::RangeResponse& range, bool full) {
  const std::string contenders = keys_.contenders(lock);
  const std::string record = keys_.record(lock);
  const std::string value = keys_.value(lock);
  Listing listing;
  listing.in_full = full;
  for (const wire::KeyValue& kv : range.kvs()) {
    if (kv.key() == record) {
      listing.record_rev = number(kv.mod_revision());
      if (full) {
        // A break writes the record on the basis of this reading, so an unreadable record is an
        // error.
        auto parsed = contend::read_record(kv.value(), kv.key());
        if (!parsed) return parsed.error();
        listing.record = *std::move(parsed);
      }
      continue;
    }
    const bool inside = kv.key().starts_with(contenders);
    auto key = inside ? contend::parse_key(std::string_view(kv.key()).substr(contenders.size()))
                      : std::nullopt;
    if (!key) {
      if (full && kv.key() != value) listing.unknown.add(kv.key());
      continue;
    }
    listing.queue.push_back(entry_of(kv, *key, full));
  }
  if (!listing.record && listing.record_rev == 0) listing.record = Record{};
  sort_queue(listing);
  return listing;
}

QueueEntry EtcdBackend::entry_of(const wire::KeyValue& kv, const contend::Key& key,
                                 bool full) const {
  QueueEntry place;
  place.key = key;
  place.order = place.created = number(kv.create_revision());
  place.modified = number(kv.mod_revision());
  if (full) place.details = details_of(kv, place);
  return place;
}

void EtcdBackend::sort_queue(Listing& listing) {
  std::sort(listing.queue.begin(), listing.queue.end(),
            [](const QueueEntry& a, const QueueEntry& b) { return a.order < b.order; });
}

Details EtcdBackend::details_of(const wire::KeyValue& kv, const QueueEntry&) const {
  return contend::read_details(kv.value(), kv.key());
}

void EtcdBackend::list(std::string lock, bool latest, WakerPtr waker, BootInstant deadline,
                       Done<Listing> done) {
  const std::string contenders = keys_.contenders(lock);
  ask_range(folder_request(lock, /*full=*/false), latest,
            {contenders, behind(contenders), waker, waking(waker)}, deadline,
            [this, lock, done = std::move(done)](const Result<wire::RangeResponse>& range) {
              if (!range) return done(range.error());
              done(listing_of(lock, *range, /*full=*/false));
            });
}

void EtcdBackend::list_in_full(std::string lock, BootInstant deadline, Done<Listing> done) {
  ask_range(folder_request(lock, /*full=*/true), /*latest=*/true, {}, deadline,
            [this, lock, done = std::move(done)](const Result<wire::RangeResponse>& range) {
              if (!range) return done(range.error());
              done(listing_of(lock, *range, /*full=*/true));
            });
}

void EtcdBackend::read(std::string lock, QueueEntry place, WakerPtr waker, BootInstant deadline,
                       Done<std::optional<Read>> done) {
  const std::string key = key_of(lock, place);
  if (key.empty()) {
    post([done] { done(std::optional<Read>()); });
    return;
  }
  ask_range(one_key(key), /*latest=*/false, {key, {}, waker, waking(waker)}, deadline,
            [this, place, done = std::move(done)](const Result<wire::RangeResponse>& range) {
              if (!range) return done(range.error());
              const wire::KeyValue* kv = range->kvs().empty() ? nullptr : &range->kvs(0);
              // The key was created again since, so it is another contender.
              if (kv != nullptr && number(kv->create_revision()) != place.order) kv = nullptr;
              if (kv == nullptr) return done(std::optional<Read>());
              done(std::optional(Read{details_of(*kv, place), number(kv->create_revision()),
                                      number(kv->mod_revision())}));
            });
}

void EtcdBackend::read_record(std::string lock, BootInstant deadline,
                              Done<std::pair<Record, std::uint64_t>> done) {
  ask_range(one_key(keys_.record(lock)), /*latest=*/false, {}, deadline,
            [lock, done = std::move(done)](const Result<wire::RangeResponse>& range) {
              if (!range) return done(range.error());
              if (range->kvs().empty()) return done(std::pair(Record{}, std::uint64_t{0}));
              auto record = contend::read_record(range->kvs(0).value(), range->kvs(0).key());
              if (!record) return done(record.error());
              done(std::pair(*std::move(record), number(range->kvs(0).mod_revision())));
            });
}

void EtcdBackend::read_value(std::string lock, BootInstant deadline, Done<Value> done) {
  ask_range(one_key(keys_.value(lock)), /*latest=*/true, {}, deadline,
            [done = std::move(done)](const Result<wire::RangeResponse>& range) {
              if (!range) return done(range.error());
              Value value;
              if (!range->kvs().empty()) {
                value = {range->kvs(0).value(), number(range->kvs(0).mod_revision())};
              }
              done(std::move(value));
            });
}

// --- All locks.

struct EtcdBackend::Folders {
  std::string begins;
  std::string next;
  std::string end;
  std::size_t limit = 0;
  BootInstant deadline;
  contend::Locks found{};
  Done<contend::Locks> done;
};

void EtcdBackend::list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                             Done<contend::Locks> done) {
  auto all = std::make_shared<Folders>();
  all->begins = all->next = keys_.folders(prefix);
  all->end = behind(keys_.folders(""));
  all->limit = limit;
  all->deadline = deadline;
  all->done = std::move(done);
  list_more(all);
}

void EtcdBackend::list_more(const std::shared_ptr<Folders>& all) {
  constexpr std::int64_t kAtOnce = 512;
  wire::RangeRequest request;
  request.set_key(all->next);
  request.set_range_end(all->end);
  request.set_limit(kAtOnce);
  request.set_keys_only(true);
  ask_range(std::move(request), /*latest=*/true, {}, all->deadline,
            [this, all](const Result<wire::RangeResponse>& range) {
              if (!range) return all->done(range.error());
              bool over = !range->more();
              std::vector<std::string>& names = all->found.names;
              for (const wire::KeyValue& kv : range->kvs()) {
                if (!kv.key().starts_with(all->begins)) {
                  over = true;
                  break;
                }
                auto folder = keys_.folder_of(kv.key());
                all->next = folder ? folder->end : kv.key() + '\0';
                if (!folder) {
                  all->found.unknown.add(kv.key());
                  continue;
                }
                if (!names.empty() && names.back() == folder->lock) continue;
                if (names.size() == all->limit) {
                  over = true;
                  break;
                }
                names.push_back(std::move(folder->lock));
              }
              if (!over) return list_more(all);
              std::sort(names.begin(), names.end());
              all->done(std::move(all->found));
            });
}

// --- Watched.

void EtcdBackend::ask_range(wire::RangeRequest request, bool latest, Watching watching,
                            BootInstant deadline, Done<wire::RangeResponse> done) {
  when_settled(deadline, [=, this, request = std::move(request), done = std::move(done),
                          watching = std::move(watching)](const Result<void>& settled) mutable {
    if (!settled) return fail(done, settled.error());
    // Any member may answer, if its answer is not older than what this client has seen.
    request.set_serializable(!latest);
    const auto read = std::make_shared<WatchedRead>(
        *rpc_, std::move(request), seen_, deadline,
        [this, done = std::move(done)](const Result<wire::RangeResponse>& range) {
          note(0, range, /*may_have_written=*/false);
          done(range);
        },
        std::move(watching.wake), watching.waker);
    const std::uint64_t watch = read->start(watching.key, watching.end);
    if (watch != 0) keep_watch(watching.waker, watch);
  });
}

std::function<void()> EtcdBackend::waking(const WakerPtr& waker) {
  if (!waker) return nullptr;
  return [this, weak = std::weak_ptr(waker)] {
    post([weak] {
      if (const auto wanted = weak.lock()) wanted->wake();
    });
  };
}

// Checks two old watches with every new one, and ends those that nobody wants any more.
void EtcdBackend::keep_watch(const contend::WakerPtr& waker, std::uint64_t watch) {
  watches_.emplace_back(waker, watch);
  for (int i = 0; i < 2; ++i) {
    if (swept_ >= watches_.size()) swept_ = 0;
    if (watches_[swept_].first.expired()) {
      rpc_->end_watch(watches_[swept_].second);
      watches_[swept_] = std::move(watches_.back());
      watches_.pop_back();
    } else {
      ++swept_;
    }
    if (watches_.empty()) break;
  }
}

}  // namespace holdfast::stores::etcd
