// The reads of the backend, and their watches.
#include <algorithm>
#include <utility>

#include "src/stores/consul/backend.h"
#include "src/stores/consul/transport/errors.h"

namespace holdfast::stores::consul {
namespace {

using contend::Listing;
using contend::QueueEntry;
using contend::Read;
using contend::Record;
using contend::Value;
using contend::WakerPtr;

constexpr std::chrono::milliseconds kPauseOfReads(50);

}  // namespace

// --- Asking.

void ConsulBackend::get(std::string target, BootInstant deadline, GetDone done) {
  // A write with an unknown outcome must not be applied after this read.
  if (closed_ || !writes_->fencing()) return try_get(target, deadline, std::move(done));
  writes_->behind(deadline, [this, target = std::move(target), deadline,
                             done = std::move(done)](const Result<void>& ready) mutable {
    if (!ready) return done(ready.error());
    try_get(target, deadline, std::move(done));
  });
}

void ConsulBackend::try_get(const std::string& target, BootInstant deadline, GetDone done) {
  HttpRequest request{.target = target, .reads = true, .limit = writes_->patience(deadline)};
  http_.send(std::move(request),
             [this, target, deadline, done = std::move(done)](Result<HttpReply> reply) mutable {
               const bool failed = reply ? reply->status >= 500 || reply->doubtful
                                         : reply.error().code() == Errc::kUnavailable;
               if (closed_ || !failed || left_until(deadline) <= kPauseOfReads)
                 return done(std::move(reply));
               reads_again_.push_back([this, target, deadline, done = std::move(done)]() mutable {
                 try_get(target, deadline, std::move(done));
               });
               if (reads_again_.size() > 1) return;  // The timer is armed already.
               read_timer_.arm(kPauseOfReads, [this] {
                 for (auto& again : std::exchange(reads_again_, {})) again();
               });
             });
}

void ConsulBackend::get_pairs(
    std::string target, BootInstant deadline,
    std::function<void(Result<std::vector<Pair>>, std::uint64_t index)> done) {
  get(std::move(target), deadline, [done = std::move(done)](const Result<HttpReply>& reply) {
    if (!reply) return done(reply.error(), 0);
    done(read_pairs(*reply, "reading"), reply->index);
  });
}

// Consul silently leaves keys out that the token may not read. So an empty listing counts only if a
// single key of the folder may be read.
void ConsulBackend::check_reading(const std::string& key, BootInstant deadline,
                                  std::function<void(Result<void>)> done) {
  get_pairs(key_target(key) + "?consistent", deadline,
            [done = std::move(done)](const Result<std::vector<Pair>>& pairs, std::uint64_t) {
              done(pairs ? Result<void>() : Result<void>(pairs.error()));
            });
}

// --- One lock.

// The entries of a folder, without foreign keys.
Result<Listing> ConsulBackend::listing_of(const std::string& lock, const std::vector<Pair>& pairs,
                                          bool in_full) const {
  const std::string begins = keys_.contenders(lock);
  const std::string record = keys_.record(lock);
  Listing listing;
  listing.in_full = in_full;
  std::map<std::uint64_t, const Pair*> values;
  listing.record.emplace();
  for (const Pair& pair : pairs) {
    if (pair.key == record) {
      auto parsed = contend::read_record(pair.value(), pair.key);
      if (!parsed) return parsed.error();
      listing.record = *std::move(parsed);
      listing.record_rev = pair.modified;
      continue;
    }
    std::string_view name = pair.key;
    name.remove_prefix(name.starts_with(begins) ? begins.size() : name.size());
    const auto key = contend::parse_key(name);
    // A key without a session belongs to no client: an operator has written it, and may remove it.
    if (!key || pair.session.empty()) {
      const bool left = !key && contend::parse_key(left_by(name));
      if (in_full && !left) listing.unknown.add(pair.key);
      continue;
    }
    values.emplace(pair.created, &pair);
    listing.queue.push_back({*key, pair.created, {}, pair.created, pair.modified});
  }
  std::sort(listing.queue.begin(), listing.queue.end(),
            [](const QueueEntry& a, const QueueEntry& b) { return a.order < b.order; });
  // For the others the key is enough.
  const std::size_t wanted = in_full ? listing.queue.size() : 1;
  for (std::size_t i = 0; i < std::min(wanted, listing.queue.size()); ++i) {
    const Pair& pair = *values.at(listing.queue[i].order);
    listing.queue[i].details = contend::read_details(pair.value(), pair.key);
  }
  return listing;
}

void ConsulBackend::list(std::string lock, bool /*latest*/, WakerPtr waker, BootInstant deadline,
                         Done<Listing> done) {
  list_as(lock, /*in_full=*/false, waker, deadline, std::move(done));
}

void ConsulBackend::list_as(const std::string& lock, bool in_full, const WakerPtr& waker,
                            BootInstant deadline, Done<Listing> done) {
  Asked& asked = lists_[{lock, in_full}];
  asked.next.push_back({waker, deadline, std::move(done)});
  if (!asked.busy) list_for_all({lock, in_full});
}

// A release may wake hundreds of readers, which all ask for the same listing.
void ConsulBackend::list_for_all(const std::pair<std::string, bool>& what) {
  Asked& asked = lists_[what];
  asked.busy = true;
  auto askers = std::make_shared<std::vector<Asker>>(std::exchange(asked.next, {}));
  BootInstant deadline{};
  for (const Asker& each : *askers) deadline = std::max(deadline, each.deadline);
  const std::string folder = key_target(keys_.folder(what.first));
  get_pairs(folder + "?recurse&consistent", deadline,
            [this, what, folder, askers](Result<std::vector<Pair>> pairs, std::uint64_t index) {
              auto& next = lists_[what].next;
              // After close() nothing is sent, because nobody could take the answer.
              if (closed_) {
                for (Asker& each : std::exchange(next, {})) askers->push_back(std::move(each));
              }
              const auto listing = pairs ? listing_of(what.first, *pairs, what.second)
                                         : Result<Listing>(pairs.error());
              for (const Asker& each : *askers) {
                const auto wanted = each.waker.lock();
                // Asking for keys only gives a short answer.
                if (pairs && wanted) watches_->add(folder + "?keys", index, wanted);
                each.done(listing);
              }
              if (!next.empty()) return list_for_all(what);
              lists_.erase(what);
            });
}

void ConsulBackend::list_in_full(std::string lock, BootInstant deadline, Done<Listing> done) {
  if (!gate_.on()) {
    return list_as(lock, /*in_full=*/true, nullptr, deadline,
                   [this, lock, deadline, done = std::move(done)](Result<Listing> listing) {
                     if (!listing || !listing->queue.empty() || listing->record_rev != 0) {
                       return done(std::move(listing));
                     }
                     check_reading(
                         keys_.record(lock), deadline,
                         [lock, listing = *std::move(listing), done](const Result<void>& allowed) {
                           if (!allowed) return done(allowed.error());
                           done(listing);
                         });
                   });
  }
  if (auto good = gate_.check_name(lock); !good) return later(std::move(done), good.error());
  gate_.find_stranger(
      lock, deadline,
      [this, lock, deadline,
       done = std::move(done)](const Result<std::optional<QueueEntry>>& stranger) {
        if (!stranger) return done(stranger.error());
        list_as(lock, /*in_full=*/true, nullptr, deadline,
                [stranger = *stranger, done](Result<Listing> listing) {
                  if (listing && stranger) listing->queue.insert(listing->queue.begin(), *stranger);
                  done(std::move(listing));
                });
                      });
}

void ConsulBackend::read(std::string lock, QueueEntry place, WakerPtr waker, BootInstant deadline,
                         Done<std::optional<Read>> done) {
  const std::string path = keys_.contender(lock, place.key);
  const std::string target = key_target(path);
  // The query includes the note that the contender may leave (handoff.h).
  const std::string all = target + "?recurse";
  get_pairs(waker != nullptr ? all + "&consistent" : target + "?consistent", deadline,
            [this, lock, path, all, order = place.order, weak = std::weak_ptr(waker),
             done = std::move(done)](Result<std::vector<Pair>> pairs, std::uint64_t index) {
              if (!pairs) return done(pairs.error());
              const auto wanted = weak.lock();
              const auto found = std::find_if(pairs->begin(), pairs->end(), [&](const Pair& pair) {
                return pair.key == path && !pair.session.empty() && pair.created == order;
              });
              if (found == pairs->end()) {
                if (wanted != nullptr) watches_->wake(wanted);
                return done(std::optional<Read>());
              }
              const Pair& pair = *found;
              if (wanted != nullptr) {
                watches_->add(all, index, wanted,
                              [path, order, modified = pair.modified](const HttpReply& reply) {
                                return judge(reply, path, order, modified);
                              });
                if (gate_.on()) gate_.note(lock, pair);
              }
              done(std::optional(Read{contend::read_details(pair.value(), pair.key), pair.created,
                                      pair.modified}));
            });
}

void ConsulBackend::read_record(std::string lock, BootInstant deadline,
                                Done<std::pair<Record, std::uint64_t>> done) {
  get_pairs(key_target(keys_.record(lock)) + "?consistent", deadline,
            [lock, done = std::move(done)](Result<std::vector<Pair>> pairs, std::uint64_t) {
              if (!pairs) return done(pairs.error());
              if (pairs->empty()) return done(std::pair(Record{}, std::uint64_t{0}));
              const Pair& pair = pairs->front();
              auto record = contend::read_record(pair.value(), pair.key);
              if (!record) return done(record.error());
              done(std::pair(*std::move(record), pair.modified));
            });
}

void ConsulBackend::read_value(std::string lock, BootInstant deadline, Done<Value> done) {
  get_pairs(key_target(keys_.value(lock)) + "?consistent", deadline,
            [lock, done = std::move(done)](Result<std::vector<Pair>> pairs, std::uint64_t) {
              if (!pairs) return done(pairs.error());
              if (pairs->empty()) return done(Value{});
              done(Value{pairs->front().value(), pairs->front().modified});
            });
}

// --- All locks.

void ConsulBackend::list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                               Done<contend::Locks> done) {
  const std::string all = keys_.locks(prefix);
  get(key_target(all) + "?keys&separator=%2F&consistent", deadline,
      [this, all, prefix, limit, deadline, done = std::move(done)](const Result<HttpReply>& reply) {
        if (!reply) return done(reply.error());
        auto folders = read_keys(*reply, "listing locks");
        if (!folders) return done(folders.error());
        contend::Locks locks;
        for (const std::string& folder : *folders) {
          auto name = keys_.lock_of(folder);
          // Consul's web interface creates a key for a folder itself, which does not count.
          if (!name && folder != all) locks.unknown.add(folder);
          if (!name || !name->starts_with(prefix)) continue;
          // With the recipe, another program may have created a folder that belongs to no lock.
          if (!gate_.on() || gate_.check_name(*name)) locks.names.push_back(*std::move(name));
        }
        const auto told = [limit, done](Result<contend::Locks> found) {
          if (!found) return done(found.error());
          auto& names = found->names;
          std::sort(names.begin(), names.end());
          names.erase(std::unique(names.begin(), names.end()), names.end());
          if (names.size() > limit) names.resize(limit);
          done(std::move(found));
        };
        if (gate_.on()) return list_shared(prefix, std::move(locks), deadline, told);
        if (!folders->empty()) return told(std::move(locks));
        check_reading(all, deadline, [done](const Result<void>& allowed) {
          if (!allowed) return done(allowed.error());
          done(contend::Locks());
        });
      });
}

// With the recipe: locks that others hold, and whose folders have no key of ours.
void ConsulBackend::list_shared(const std::string& prefix, contend::Locks locks,
                                BootInstant deadline, const Done<contend::Locks>& done) {
  const std::string& path = address_.shared_path;
  get(key_target(path + prefix) + "?keys&consistent", deadline,
      [this, path, locks = std::move(locks), deadline,
       done](const Result<HttpReply>& reply) mutable {
        if (!reply) return done(reply.error());
        const auto keys = read_keys(*reply, "listing locks");
        if (!keys) return done(keys.error());
        for (const std::string& key : *keys) {
          constexpr std::string_view kEnd = "/.lock";
          if (!key.starts_with(path) || !key.ends_with(kEnd)) continue;
          if (key.size() <= path.size() + kEnd.size()) continue;
          std::string name = key.substr(path.size(), key.size() - path.size() - kEnd.size());
          if (gate_.check_name(name)) locks.names.push_back(std::move(name));
        }
        if (!keys->empty() || path.empty()) return done(std::move(locks));
        check_reading(path + ".lock", deadline,
                      [locks = std::move(locks), done](const Result<void>& allowed) {
                        if (!allowed) return done(allowed.error());
                        done(locks);
                      });
      });
}

}  // namespace holdfast::stores::consul
