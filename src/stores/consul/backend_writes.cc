// The writes of the backend: entering, marking, leaving, and one step for everything rare.
#include <algorithm>
#include <utility>

#include "src/base/random.h"
#include "src/stores/consul/backend.h"
#include "src/stores/consul/transport/errors.h"

namespace holdfast::stores::consul {
namespace {

using contend::Change;
using contend::Details;
using contend::Entered;
using contend::Key;
using contend::QueueEntry;
using contend::Read;
using contend::WakerPtr;

constexpr const char* kPlainOnly = "with recipe=consul only plain exclusive locks are supported";

// The bytes of a write's steps, without a contender's text.
std::size_t bytes_about(const std::string& path) { return 3 * path.size() + 300; }

// The index of its last write as its owner knows it; 0 if it knows of none.
std::uint64_t written_at(const QueueEntry& place) {
  return place.modified != 0 ? place.modified : place.order;
}

// Names are reused. This check keeps a delayed duplicate from changing a key that was created again
// under the same name.
Transaction& expect(Transaction& all, const std::string& path, std::uint64_t index,
                    const std::string& session) {
  return index != 0 ? all.check_index(path, index) : all.check_session(path, session);
}

}  // namespace

void ConsulBackend::enter(std::uint64_t epoch, std::string lock, Key key, Details details,
                          BootInstant deadline, Done<Entered> done) {
  if (gate_.on()) {
    if (auto good = gate_.check_name(lock); !good) return later(std::move(done), good.error());
    if (key.shape != contend::Shape::kExclusive) {
      return later(std::move(done), Error(Errc::kUnsupported, kPlainOnly));
    }
  }
  const std::string path = keys_.contender(lock, key);
  const std::string folder = keys_.folder(lock);
  Write write{.lock = lock,
              .epoch = epoch,
              .what = "acquire",
              .steps = {},
              .deadline = deadline,
              .done = {}};
  std::string text = contend::to_text(details);
  write.joins = may_join();
  write.bytes = bytes_about(path) + text.size() * 4 / 3;
  if (write.joins) write.enters = path;
  write.steps = [this, path, folder, text = std::move(text),
                 id = session_->id()](Transaction& all) {
    all.check_not_exists(path).lock(path, text, id, gate_.flags()).get_tree(folder);
  };
  write.done = [this, epoch, lock, key, path, id = session_->id(), deadline,
                done = std::move(done)](Result<TransactionReply> answer) {
    if (!answer) return done(answer.error());
    // The contender was created, but its queue cannot be read. A refused caller must not leave it
    // there, because it would block the lock.
    const auto refuse = [this, epoch, lock, key, deadline, done](const Error& why) {
      remove_as(epoch, lock, QueueEntry{key, 0}, std::nullopt, deadline,
                [done, why](const Result<bool>&) { done(why); });
    };
    const auto conclude = [this, lock, path, id, done, refuse](const std::vector<Pair>& pairs) {
      auto listing = listing_of(lock, pairs, /*in_full=*/false);
      if (!listing) return refuse(listing.error());
      const auto own = std::find_if(pairs.begin(), pairs.end(),
                                    [&](const Pair& pair) { return pair.key == path; });
      if (own != pairs.end() && own->session != id) {
        return done(Error(Errc::kUnsupported,
                          "another client's session keeps this acquisition; renew it there"));
      }
      if (own == pairs.end()) {
        return refuse({Errc::kPermissionDenied,
                       "the token may not read its own writes; docs/stores/consul.md has the "
                       "policy that "
                       "allows it"});
      }
      done(Entered{own->created, *std::move(listing)});
    };
    if (answer->done) {
      // The answers of the fence and the acquisition have no values; the folder follows them.
      const auto entered = std::find_if(answer->pairs.begin(), answer->pairs.end(),
                                        [&](const Pair& pair) { return pair.key == path; });
      if (entered != answer->pairs.end()) answer->pairs.erase(answer->pairs.begin(), entered + 1);
      return conclude(answer->pairs);
    }
    if (answer->failed_at > 0) {
      return done(Error(Errc::kUnavailable,
                        "Consul refused to let it in (" + answer->why + "); try again"));
    }
    // The contender exists already, because the answer to an earlier attempt was lost.
    get_pairs(key_target(keys_.folder(lock)) + "?recurse&consistent", deadline,
              [conclude, done, lock](Result<std::vector<Pair>> pairs, std::uint64_t) {
                if (!pairs) return done(pairs.error());
                conclude(*pairs);
              });
  };
  writes_->send(std::move(write));
}

void ConsulBackend::write(std::uint64_t epoch, std::string lock, QueueEntry place, Details details,
                          BootInstant deadline, Done<std::optional<Read>> done) {
  const std::string path = keys_.contender(lock, place.key);
  Write write{
      .lock = lock, .epoch = epoch, .what = "write", .steps = {}, .deadline = deadline, .done = {}};
  write.steps = [this, path, index = written_at(place), text = contend::to_text(details),
                 id = session_->id()](Transaction& all) {
    expect(all, path, index, id).lock(path, text, id, gate_.flags());
  };
  write.done = [this, epoch, lock, place, deadline, details = std::move(details),
                done = std::move(done)](const Result<TransactionReply>& answer) {
    if (!answer) return done(answer.error());
    if (answer->done && !answer->pairs.empty()) {
      const Pair& pair = answer->pairs.back();
      return done(std::optional(Read{details, pair.created, pair.modified}));
    }
    if (answer->done || written_at(place) == 0) return done(std::optional<Read>());
    look_again(lock, place, deadline, [=, this](const Result<std::optional<QueueEntry>>& now) {
      if (!now) return done(now.error());
      if (!*now) return done(std::optional<Read>());
      this->write(epoch, lock, **now, details, deadline, done);
    });
  };
  writes_->send(std::move(write));
}

void ConsulBackend::look_again(const std::string& lock, const QueueEntry& place,
                               BootInstant deadline, Done<std::optional<QueueEntry>> done) {
  read(lock, place, nullptr, deadline,
       [place, done = std::move(done)](const Result<std::optional<Read>>& now) {
         if (!now) return done(now.error());
         if (!*now || (*now)->modified == written_at(place))
           return done(std::optional<QueueEntry>());
         QueueEntry written = place;
         written.modified = (*now)->modified;
         done(std::optional(std::move(written)));
       });
}

void ConsulBackend::remove(std::uint64_t epoch, std::string lock, QueueEntry place,
                           BootInstant deadline, Done<bool> done) {
  remove_as(epoch, lock, place, std::nullopt, deadline, std::move(done));
}

void ConsulBackend::handoff(std::uint64_t epoch, std::string lock, QueueEntry place,
                            const machine::Token& held_with, BootInstant deadline,
                            Done<bool> done) {
  std::optional<HandoffNote> left;
  if (!gate_.on() && place.order != 0) left = {place.order, held_with.counter};
  remove_as(epoch, lock, place, left, deadline, std::move(done));
}

// `left` is the note for the next contender.
void ConsulBackend::remove_as(std::uint64_t epoch, const std::string& lock, const QueueEntry& place,
                              std::optional<HandoffNote> left, BootInstant deadline,
                              Done<bool> done) {
  const std::string path = keys_.contender(lock, place.key);
  Write write{.lock = lock,
              .epoch = epoch,
              .what = "release",
              .steps = {},
              .deadline = deadline,
              .done = {},
              .joins = may_join(),
              .bytes = bytes_about(path)};
  if (write.joins) write.removes = path;
  // Built when the write's turn comes, because the contender may pass the gate until then.
  write.steps = [this, path, lock, left, index = written_at(place),
                 id = session_->id()](Transaction& all) {
    expect(all, path, index, id).erase(path);
    if (left) all.lock(out_of(path), to_text(*left), id);
    if (!left && handoffs_->stands(out_of(path))) all.erase(out_of(path));
    if (!gate_.holds(path)) return;
    all.check_session(gate_.key_of(lock), id).erase(gate_.key_of(lock));
  };
  write.done = [this, epoch, lock, path, place, left, deadline,
                done = std::move(done)](const Result<TransactionReply>& answer) {
    if (!answer) {
      if (left) handoffs_->made(out_of(path));  // Perhaps it was.
      return done(answer.error());
    }
    const bool was_inside = gate_.holds(path);
    gate_.leave(path);
    // A condition failed: perhaps an operator broke the gate's key, or the note's key was taken.
    // The contender is still removed, without them.
    if (!answer->done && (was_inside || left) && answer->failed_at > 0) {
      return remove(epoch, lock, place, deadline, done);
    }
    if (!answer->done && written_at(place) != 0) {
      return look_again(lock, place, deadline,
                        [=, this](const Result<std::optional<QueueEntry>>& now) {
                          if (!now) return done(now.error());
                          if (!*now) return done(false);
                          remove(epoch, lock, **now, deadline, done);
                        });
    }
    if (answer->done && left) handoffs_->made(out_of(path));
    if (answer->done && !left) handoffs_->removed(out_of(path));
    done(answer->done);
  };
  writes_->send(std::move(write));
}

void ConsulBackend::pass_gate(std::uint64_t epoch, std::string lock, QueueEntry place,
                              Details details, WakerPtr waker, BootInstant deadline,
                              Done<contend::Gate> done) {
  const std::string contender = keys_.contender(lock, place.key);
  gate_.pass(
      {epoch, std::move(lock), contender, std::move(details), waker, deadline, std::move(done)});
}

void ConsulBackend::apply(Change change, BootInstant deadline,
                          Done<std::optional<std::uint64_t>> done) {
  if (change.epoch == 0) {  // It belongs to no session.
    return session_->ensure(deadline, [this, change = std::move(change), deadline,
                                       done = std::move(done)](const Result<void>& opened) mutable {
      if (!opened) return done(opened.error());
      change.epoch = session_->epoch();
      apply(std::move(change), deadline, std::move(done));
    });
  }
  const auto inside = std::find_if(
      change.removed.begin(), change.removed.end(),
      [](const QueueEntry& each) { return each.key.id && each.details && each.details->marked; });
  if (!gate_.on() || inside == change.removed.end()) {
    return send_change(std::move(change), std::nullopt, deadline, std::move(done));
  }
  // A contender inside the gate is removed together with the gate's key, unless somebody took that
  // key by hand. While the contender is unchanged, it does not get another key.
  get_pairs(key_target(gate_.key_of(change.lock)) + "?consistent", deadline,
            [this, change, session = inside->details->session, deadline, done = std::move(done)](
                const Result<std::vector<Pair>>& pairs, std::uint64_t) {
              if (!pairs) return done(pairs.error());
              std::optional<std::uint64_t> gate;
              for (const Pair& pair : *pairs) {
                if (pair.session == session) gate = pair.modified;
              }
              send_change(change, gate, deadline, done);
            });
}

void ConsulBackend::send_change(Change change, std::optional<std::uint64_t> gate,
                                BootInstant deadline, Done<std::optional<std::uint64_t>> done) {
  const std::string lock = change.lock;
  Write write{.lock = lock,
              .epoch = change.epoch,
              .what = "change",
              .steps = {},
              .deadline = deadline,
              .done = {}};
  write.steps = [this, gate, change](Transaction& all) {
    const auto expect = [&all](const std::string& key, std::optional<std::uint64_t> revision) {
      if (revision && *revision == 0) all.check_not_exists(key);
      if (revision && *revision != 0) all.check_index(key, *revision);
    };
    const std::string record = keys_.record(change.lock);
    const std::string value = keys_.value(change.lock);
    expect(record, change.record_rev);
    expect(value, change.value_rev);
    if (change.present) {
      const std::string path = keys_.contender(change.lock, change.present->key);
      // As with expect(), but the contender may be another client's.
      const std::uint64_t index = written_at(*change.present);
      index != 0 ? all.check_index(path, index) : all.get(path);
    }
    for (const QueueEntry& place : change.removed) {
      const bool stranger = !place.key.id;
      const std::string path =
          stranger ? gate_.key_of(change.lock) : keys_.contender(change.lock, place.key);
      if (place.modified == 0) {
        all.get(path).erase(path);
      } else {
        all.check_index(path, place.modified).erase(path);
      }
    }
    if (gate) all.check_index(gate_.key_of(change.lock), *gate).erase(gate_.key_of(change.lock));
    if (change.value) all.set(value, *change.value);
    // The previous index makes the text differ, because Consul ignores a write that changes
    // nothing.
    if (change.record) {
      all.set(record, contend::to_text(*change.record) +
                          " behind=" + std::to_string(change.record_rev.value_or(0)));
    }
  };
  write.done = [this, gate, deadline, change = std::move(change),
                done = std::move(done)](const Result<TransactionReply>& answer) {
    if (!answer) return done(answer.error());
    if (!answer->done && change.present && written_at(*change.present) != 0) {
      return look_again(change.lock, *change.present, deadline,
                        [=, this](const Result<std::optional<QueueEntry>>& now) {
                          if (!now) return done(now.error());
                          if (!*now) return done(std::optional<std::uint64_t>());
                          Change again = change;
                          again.present = **now;
                          send_change(std::move(again), gate, deadline, done);
                        });
    }
    if (!answer->done) return done(std::optional<std::uint64_t>());
    // The values that the transaction read are older than the written ones.
    std::uint64_t number = 0;
    for (const Pair& pair : answer->pairs) number = std::max(number, pair.modified);
    done(std::optional(number));
  };
  writes_->send(std::move(write));
}

// Not fenced: the key belongs to another client's session, and a late write does no harm.
void ConsulBackend::notify(std::string session_tag, std::function<void()> then) {
  // The tag comes from another client's contender, so it is checked.
  if (!is_session_id(session_tag)) return loop_.post(std::move(then));
  const std::string key = keys_.notify(session_tag);
  Transaction both;
  // A new value each time, because Consul ignores a write that changes nothing.
  both.get(key).set(key, std::to_string(base::random_128().low));
  http_.send({.method = HttpRequest::Method::kPut,
              .target = "/v1/txn",
              .body = both.body(),
              .reads = true},
             [then = std::move(then)](const Result<HttpReply>&) { then(); });
}

}  // namespace holdfast::stores::consul
