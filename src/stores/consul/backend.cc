#include "src/stores/consul/backend.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "src/base/random.h"
#include "src/contend/contend_store.h"
#include "src/stores/consul/doctor.h"
#include "src/stores/consul/errors.h"
#include "src/stores/consul/gate.h"
#include "src/stores/consul/hand_on.h"
#include "src/stores/consul/keys.h"
#include "src/stores/consul/messages.h"
#include "src/stores/consul/promises.h"
#include "src/stores/consul/session.h"
#include "src/stores/consul/watches.h"
#include "src/stores/consul/writes.h"

namespace holdfast::stores::consul {
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
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr const char* kPlainOnly = "': with recipe=consul there are plain exclusive locks only";
constexpr milliseconds kPauseOfReads = 50ms;

Error with_lock(const Error& error, const std::string& lock) {
  return {error.code(), "lock '" + lock + "': " + error.message()};
}

class ConsulBackend final : public contend::Backend {
 public:
  ConsulBackend(const ConsulAddress& address, const port::StoreContext& context)
      : address_(address),
        loop_(*context.loop),
        keys_(address.prefix),
        agents_(std::make_shared<Agents>(address)),
        http_(*context.io, agents_),
        read_timer_(*context.io),
        watches_(std::make_shared<Watches>(*context.io, http_)),
        hand_ons_(std::make_shared<HandOns>(*context.io, http_)),
        session_(std::make_shared<Session>(
            *context.io, http_, keys_,
            SessionTerms{"holdfast " + context.owner, address.session_ttl, address.lock_delay},
            Session::Events{[this](std::uint64_t epoch, const Error& why) {
                              gate_.clear();
                              hand_ons_->clear();
                              events_->on_session_ended(epoch, why);
                            },
                            [this] { events_->on_knock(); },
                            [this](const std::string& line) { events_->on_alarm(line); }})),
        writes_(
            std::make_shared<Writes>(*context.io, http_, *session_, keys_, address.hosts.size())),
        gate_(
            address_, *session_, *writes_, *watches_,
            [this](std::string target, BootInstant deadline, GetDone done) {
              get(std::move(target), deadline, std::move(done));
            },
            [this](const std::string& line) { events_->on_alarm(line); }) {}

  ~ConsulBackend() override { close(BootClock::now()); }

  void start(contend::Events* events) override { events_ = events; }

  contend::SessionView session() const override {
    if (!session_->open()) return {};
    return {session_->epoch(), session_->in_doubt(), session_->ttl(), session_->deadline()};
  }

  void ensure_session(BootInstant deadline, Done<contend::SessionView> done) override {
    session_->ensure(deadline, [this, done = std::move(done)](const Result<void>& opened) {
      if (opened) return done(session());
      done(opened.error());
    });
  }

  void enter(std::uint64_t epoch, std::string lock, Key key, Details details, BootInstant deadline,
             Done<Entered> done) override;
  void list(std::string lock, bool latest, WakerPtr waker, BootInstant deadline,
            Done<Listing> done) override;
  void list_in_full(std::string lock, BootInstant deadline, Done<Listing> done) override;
  void read(std::string lock, Place place, WakerPtr waker, BootInstant deadline,
            Done<std::optional<Read>> done) override;
  void write(std::uint64_t epoch, std::string lock, Place place, Details details,
             BootInstant deadline, Done<std::optional<Read>> done) override;
  void remove(std::uint64_t epoch, std::string lock, Place place, BootInstant deadline,
              Done<bool> done) override {
    remove_as(epoch, std::move(lock), place, std::nullopt, deadline, std::move(done));
  }
  void hand_on(std::uint64_t epoch, std::string lock, Place place, const machine::Token& held_with,
               BootInstant deadline, Done<bool> done) override {
    std::optional<HandOn> left;
    if (!gate_.on() && place.order != 0) left = {place.order, held_with.counter};
    remove_as(epoch, std::move(lock), place, left, deadline, std::move(done));
  }
  void read_record(std::string lock, BootInstant deadline,
                   Done<std::pair<Record, std::uint64_t>> done) override;
  void read_value(std::string lock, BootInstant deadline, Done<Value> done) override;
  void apply(Change change, BootInstant deadline, Done<std::optional<std::uint64_t>> done) override;
  bool remembers_names() const override { return !gate_.on(); }
  bool gated() const override { return gate_.on(); }
  void pass_gate(std::uint64_t epoch, std::string lock, Place place, Details details,
                 WakerPtr waker, BootInstant deadline, Done<contend::Gate> done) override {
    const std::string contender = keys_.contender(lock, place.key);
    gate_.pass(
        {epoch, std::move(lock), contender, std::move(details), waker, deadline, std::move(done)});
  }
  void knock(std::string session_tag) override;
  std::string session_tag() const override { return session_->id(); }
  void list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                  Done<std::vector<std::string>> done) override;
  Guarantees guarantees() const override { return promises(address_); }
  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override;
  void close(BootInstant deadline) override;
  void abandon_after_fork() noexcept override;

 private:
  using GetDone = std::function<void(Result<HttpReply>)>;

  // The gate's key is in no lock's folder.
  bool may_join() const { return !gate_.on(); }
  // Of a write's steps, without a contender's text.
  static std::size_t bytes_about(const std::string& path) { return 3 * path.size() + 300; }

  template <typename T>
  void later(Done<T> done, Error error) {
    loop_.post([done = std::move(done), error = std::move(error)] { done(error); });
  }

  void remove_as(std::uint64_t epoch, std::string lock, const Place& place,
                 std::optional<HandOn> left, BootInstant deadline, Done<bool> done);
  // A request that changes nothing, tried again until its deadline.
  void get(std::string target, BootInstant deadline, GetDone done);
  void try_get(const std::string& target, BootInstant deadline, GetDone done);
  void get_pairs(std::string target, BootInstant deadline,
                 std::function<void(Result<std::vector<Pair>>, std::uint64_t index)> done);
  void check_reading(const std::string& key, BootInstant deadline,
                     std::function<void(Result<void>)> done);
  Result<Listing> listing_of(const std::string& lock, const std::vector<Pair>& pairs,
                             bool in_full) const;
  struct Asker {
    std::weak_ptr<contend::Waker> waker;
    BootInstant deadline{};
    Done<Listing> done;
  };
  // Who wants a lock's listing; those who ask while one is under way share the next.
  struct Asked {
    bool busy = false;
    std::vector<Asker> next;
  };
  void list_for_all(const std::pair<std::string, bool>& what);
  void list_as(const std::string& lock, bool in_full, const WakerPtr& waker, BootInstant deadline,
               Done<Listing> done);
  std::string key_target(const std::string& key) const { return "/v1/kv/" + encode_path(key); }
  void stop_on_loop(BootInstant deadline, std::function<void()> done);

  const ConsulAddress address_;
  port::Loop& loop_;
  contend::Events* events_ = nullptr;
  const Keys keys_;
  const std::shared_ptr<Agents> agents_;
  HttpLoop http_;
  LoopTimer read_timer_;
  std::vector<std::function<void()>> reads_again_;
  std::shared_ptr<Watches> watches_;
  std::shared_ptr<HandOns> hand_ons_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Writes> writes_;
  LockGate gate_;
  std::map<std::pair<std::string, bool>, Asked> lists_;
  bool closed_ = false;  // On the loop.
  bool close_called_ = false;
};

// What stands in a folder; other people's keys are left out.
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
      auto parsed = contend::parse_record(pair.value());
      if (!parsed) return with_lock(parsed.error(), lock);
      listing.record = *std::move(parsed);
      listing.record_rev = pair.modified;
      continue;
    }
    if (!pair.key.starts_with(begins)) continue;
    const auto key = contend::parse_key(std::string_view(pair.key).substr(begins.size()));
    // Without a session it is nobody's: an operator has written it, and may remove it.
    if (!key || pair.session.empty()) continue;
    values.emplace(pair.created, &pair);
    listing.queue.push_back({*key, pair.created, {}, pair.created, pair.modified});
  }
  std::sort(listing.queue.begin(), listing.queue.end(),
            [](const Place& a, const Place& b) { return a.order < b.order; });
  // Of the others the key is enough.
  const std::size_t wanted = in_full ? listing.queue.size() : 1;
  for (std::size_t i = 0; i < std::min(wanted, listing.queue.size()); ++i) {
    auto details = contend::parse_details(values.at(listing.queue[i].order)->value());
    if (!details) return with_lock(details.error(), lock);
    listing.queue[i].details = *std::move(details);
  }
  return listing;
}

void ConsulBackend::enter(std::uint64_t epoch, std::string lock, Key key, Details details,
                          BootInstant deadline, Done<Entered> done) {
  if (gate_.on()) {
    if (auto good = gate_.check_name(lock); !good) return later(std::move(done), good.error());
    if (key.shape != contend::Shape::kExclusive) {
      return later(std::move(done), Error(Errc::kUnsupported, "lock '" + lock + kPlainOnly));
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
  write.steps = [this, path, folder, text = std::move(text),
                 id = session_->id()](Transaction& all) {
    all.check_not_exists(path).lock(path, text, id, gate_.flags()).get_tree(folder);
  };
  write.done = [this, epoch, lock, key, path, id = session_->id(), deadline,
                done = std::move(done)](Result<TransactionReply> answer) {
    if (!answer) return done(with_lock(answer.error(), lock));
    // It has come, but what it came to cannot be read: who is refused leaves nothing behind.
    const auto refuse = [this, epoch, lock, key, deadline, done](const Error& why) {
      remove_as(epoch, lock, Place{key, 0}, std::nullopt, deadline,
                [done, why](const Result<bool>&) { done(why); });
    };
    const auto conclude = [this, lock, path, id, done, refuse](const std::vector<Pair>& pairs) {
      auto listing = listing_of(lock, pairs, /*in_full=*/false);
      if (!listing) return refuse(listing.error());
      const auto own = std::find_if(pairs.begin(), pairs.end(),
                                    [&](const Pair& pair) { return pair.key == path; });
      if (own != pairs.end() && own->session != id) {
        return done(
            Error(Errc::kUnsupported, "lock '" + lock +
                                          "': this acquisition is another client's, whose session "
                                          "keeps it"));
      }
      if (own == pairs.end()) {
        return refuse(
            {Errc::kPermissionDenied, "lock '" + lock +
                                          "': the token may not read what it has written: "
                                          "docs/stores/consul.md has the policy that allows it"});
      }
      done(Entered{own->created, *std::move(listing)});
    };
    if (answer->done) {
      // Behind the fence and the acquisition, which are told without their values, comes the
      // folder.
      const auto entered = std::find_if(answer->pairs.begin(), answer->pairs.end(),
                                        [&](const Pair& pair) { return pair.key == path; });
      if (entered != answer->pairs.end()) answer->pairs.erase(answer->pairs.begin(), entered + 1);
      return conclude(answer->pairs);
    }
    if (answer->failed_at > 0) {
      return done(Error(Errc::kUnavailable, "lock '" + lock + "': " + answer->why));
    }
    // It is there already: the answer to an earlier try was lost.
    get_pairs(key_target(keys_.folder(lock)) + "?recurse&consistent", deadline,
              [conclude, done, lock](Result<std::vector<Pair>> pairs, std::uint64_t) {
                if (!pairs) return done(with_lock(pairs.error(), lock));
                conclude(*pairs);
              });
  };
  writes_->send(std::move(write));
}

void ConsulBackend::get(std::string target, BootInstant deadline, GetDone done) {
  // What may still be carried out must not come behind what is read now.
  if (!writes_->fencing()) return try_get(target, deadline, std::move(done));
  writes_->behind(deadline, [this, target = std::move(target), deadline,
                             done = std::move(done)](const Result<void>& ready) mutable {
    if (!ready) return done(ready.error());
    try_get(target, deadline, std::move(done));
  });
}

void ConsulBackend::try_get(const std::string& target, BootInstant deadline, GetDone done) {
  HttpRequest request{.target = target, .reads = true, .limit = writes_->patience(deadline)};
  http_.send(std::move(request), [this, target, deadline,
                                  done = std::move(done)](Result<HttpReply> reply) mutable {
    const bool failed = reply ? reply->status >= 500 : reply.error().code() == Errc::kUnavailable;
    if (closed_ || !failed || left_until(deadline) <= kPauseOfReads) return done(std::move(reply));
    reads_again_.push_back([this, target, deadline, done = std::move(done)]() mutable {
      try_get(target, deadline, std::move(done));
    });
    if (reads_again_.size() > 1) return;  // It is armed.
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

// A listing leaves out what the token may not read, and says nothing of it: one that is empty is
// believed when a single key of it may be read.
void ConsulBackend::check_reading(const std::string& key, BootInstant deadline,
                                  std::function<void(Result<void>)> done) {
  get_pairs(key_target(key) + "?consistent", deadline,
            [done = std::move(done)](const Result<std::vector<Pair>>& pairs, std::uint64_t) {
              done(pairs ? Result<void>() : Result<void>(pairs.error()));
            });
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

// A release may wake hundreds of readers, who ask for the same at once.
void ConsulBackend::list_for_all(const std::pair<std::string, bool>& what) {
  Asked& asked = lists_[what];
  asked.busy = true;
  auto askers = std::make_shared<std::vector<Asker>>(std::exchange(asked.next, {}));
  BootInstant deadline{};
  for (const Asker& each : *askers) deadline = std::max(deadline, each.deadline);
  const std::string folder = key_target(keys_.folder(what.first));
  get_pairs(folder + "?recurse&consistent", deadline,
            [this, what, folder, askers](Result<std::vector<Pair>> pairs, std::uint64_t index) {
              const auto listing = pairs ? listing_of(what.first, *pairs, what.second)
                                         : Result<Listing>(with_lock(pairs.error(), what.first));
              for (const Asker& each : *askers) {
                const auto wanted = each.waker.lock();
                // Keys alone are a short answer.
                if (pairs && wanted) watches_->add(folder + "?keys", index, wanted);
                each.done(listing);
              }
              if (!lists_[what].next.empty()) return list_for_all(what);
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
                           if (!allowed) return done(with_lock(allowed.error(), lock));
                           done(listing);
                         });
                   });
  }
  if (auto good = gate_.check_name(lock); !good) return later(std::move(done), good.error());
  gate_.find_stranger(
      lock, deadline,
      [this, lock, deadline, done = std::move(done)](const Result<std::optional<Place>>& stranger) {
        if (!stranger) return done(with_lock(stranger.error(), lock));
        list_as(lock, /*in_full=*/true, nullptr, deadline,
                [stranger = *stranger, done](Result<Listing> listing) {
                  if (listing && stranger) listing->queue.insert(listing->queue.begin(), *stranger);
                  done(std::move(listing));
                });
      });
}

void ConsulBackend::read(std::string lock, Place place, WakerPtr waker, BootInstant deadline,
                         Done<std::optional<Read>> done) {
  const std::string path = keys_.contender(lock, place.key);
  const std::string target = key_target(path);
  // With what it may leave behind (hand_on.h).
  const std::string all = target + "?recurse";
  get_pairs(waker != nullptr ? all + "&consistent" : target + "?consistent", deadline,
            [this, lock, path, all, order = place.order, weak = std::weak_ptr(waker),
             done = std::move(done)](Result<std::vector<Pair>> pairs, std::uint64_t index) {
              if (!pairs) return done(with_lock(pairs.error(), lock));
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
              auto details = contend::parse_details(pair.value());
              if (!details) return done(with_lock(details.error(), lock));
              done(std::optional(Read{*std::move(details), pair.created, pair.modified}));
            });
}

void ConsulBackend::write(std::uint64_t epoch, std::string lock, Place place, Details details,
                          BootInstant deadline, Done<std::optional<Read>> done) {
  const std::string path = keys_.contender(lock, place.key);
  Write write{
      .lock = lock, .epoch = epoch, .what = "write", .steps = {}, .deadline = deadline, .done = {}};
  write.steps = [this, path, text = contend::to_text(details),
                 id = session_->id()](Transaction& all) {
    all.check_session(path, id).lock(path, text, id, gate_.flags());
  };
  write.done = [lock, details = std::move(details),
                done = std::move(done)](const Result<TransactionReply>& answer) {
    if (!answer) return done(with_lock(answer.error(), lock));
    if (!answer->done || answer->pairs.empty()) return done(std::optional<Read>());
    const Pair& pair = answer->pairs.back();
    done(std::optional(Read{details, pair.created, pair.modified}));
  };
  writes_->send(std::move(write));
}

// `left`: what it leaves to the next one.
void ConsulBackend::remove_as(std::uint64_t epoch, std::string lock, const Place& place,
                              std::optional<HandOn> left, BootInstant deadline, Done<bool> done) {
  const std::string path = keys_.contender(lock, place.key);
  Write write{.lock = lock,
              .epoch = epoch,
              .what = "release",
              .steps = {},
              .deadline = deadline,
              .done = {},
              .joins = may_join(),
              .bytes = bytes_about(path)};
  // Asked when its turn has come: whether it is inside the gate may be decided until then.
  // Its name may come again: of this request, a copy that comes late must not take the next bearer.
  const std::uint64_t index = place.modified != 0 ? place.modified : place.order;
  write.steps = [this, path, lock, left, index, id = session_->id()](Transaction& all) {
    (index != 0 ? all.check_index(path, index) : all.check_session(path, id)).erase(path);
    if (left) all.lock(out_of(path), to_text(*left), id);
    if (!left && hand_ons_->stands(out_of(path))) all.erase(out_of(path));
    if (!gate_.holds(path)) return;
    all.check_session(gate_.key_of(lock), id).erase(gate_.key_of(lock));
  };
  write.done = [this, epoch, lock, path, place, left, deadline, index,
                done = std::move(done)](const Result<TransactionReply>& answer) {
    if (!answer) {
      if (left) hand_ons_->made(out_of(path));  // Perhaps.
      return done(with_lock(answer.error(), lock));
    }
    const bool was_inside = gate_.holds(path);
    gate_.leave(path);
    // Somebody has broken the key, or has taken what is left: the contender goes all the same.
    if (!answer->done && (was_inside || left) && answer->failed_at > 0) {
      return remove(epoch, lock, place, deadline, done);
    }
    if (!answer->done && index != 0) {  // It has gone, or was written since.
      const auto seen = [=, this, written = place](const Result<std::optional<Read>>& now) mutable {
        if (!now) return done(now.error());
        if (!*now || (*now)->modified == index) return done(false);
        written.modified = (*now)->modified;
        remove(epoch, lock, written, deadline, done);
      };
      return read(lock, place, nullptr, deadline, seen);
    }
    if (answer->done && left) hand_ons_->made(out_of(path));
    if (answer->done && !left) hand_ons_->removed(out_of(path));
    done(answer->done);
  };
  writes_->send(std::move(write));
}

void ConsulBackend::read_record(std::string lock, BootInstant deadline,
                                Done<std::pair<Record, std::uint64_t>> done) {
  get_pairs(key_target(keys_.record(lock)) + "?consistent", deadline,
            [lock, done = std::move(done)](Result<std::vector<Pair>> pairs, std::uint64_t) {
              if (!pairs) return done(with_lock(pairs.error(), lock));
              if (pairs->empty()) return done(std::pair(Record{}, std::uint64_t{0}));
              auto record = contend::parse_record(pairs->front().value());
              if (!record) return done(with_lock(record.error(), lock));
              done(std::pair(*std::move(record), pairs->front().modified));
            });
}

void ConsulBackend::read_value(std::string lock, BootInstant deadline, Done<Value> done) {
  get_pairs(key_target(keys_.value(lock)) + "?consistent", deadline,
            [lock, done = std::move(done)](Result<std::vector<Pair>> pairs, std::uint64_t) {
              if (!pairs) return done(with_lock(pairs.error(), lock));
              if (pairs->empty()) return done(Value{});
              done(Value{pairs->front().value(), pairs->front().modified});
            });
}

void ConsulBackend::apply(Change change, BootInstant deadline,
                          Done<std::optional<std::uint64_t>> done) {
  if (change.epoch == 0) {  // Nobody's in particular: of one who has asked for no lock yet.
    return session_->ensure(deadline, [this, change = std::move(change), deadline,
                                       done = std::move(done)](const Result<void>& opened) mutable {
      if (!opened) return done(with_lock(opened.error(), change.lock));
      change.epoch = session_->epoch();
      apply(std::move(change), deadline, std::move(done));
    });
  }
  const std::string lock = change.lock;
  Write write{.lock = lock,
              .epoch = change.epoch,
              .what = "change",
              .steps = {},
              .deadline = deadline,
              .done = {}};
  write.steps = [this, change = std::move(change)](Transaction& all) {
    const auto expect = [&all](const std::string& key, std::optional<std::uint64_t> revision) {
      if (revision && *revision == 0) all.check_not_exists(key);
      if (revision && *revision != 0) all.check_index(key, *revision);
    };
    const std::string record = keys_.record(change.lock);
    const std::string value = keys_.value(change.lock);
    expect(record, change.record_rev);
    expect(value, change.value_rev);
    if (change.present) all.get(keys_.contender(change.lock, change.present->key));
    for (const Place& place : change.removed) {
      const std::string gate = gate_.key_of(change.lock);
      const bool stranger = !place.key.id;
      const std::string path = stranger ? gate : keys_.contender(change.lock, place.key);
      if (stranger || place.modified == 0) {
        all.get(path).erase(path);
      } else {
        all.check_index(path, place.modified).erase(path);
      }
      if (!gate_.on() || stranger || !place.details || !place.details->marked) continue;
      all.check_session(gate, place.details->session).erase(gate);
    }
    if (change.value) all.set(value, *change.value);
    // The number of before makes it another text: a write that changes nothing is passed over.
    if (change.record) {
      all.set(record, contend::to_text(*change.record) +
                          " behind=" + std::to_string(change.record_rev.value_or(0)));
    }
  };
  write.done = [lock, done = std::move(done)](const Result<TransactionReply>& answer) {
    if (!answer) return done(with_lock(answer.error(), lock));
    if (!answer->done) return done(std::optional<std::uint64_t>());
    // What was read in it is older than what was written.
    std::uint64_t number = 0;
    for (const Pair& pair : answer->pairs) number = std::max(number, pair.modified);
    done(std::optional(number));
  };
  writes_->send(std::move(write));
}

// Not fenced: the session of another, and harmless whenever it comes.
void ConsulBackend::knock(std::string session_tag) {
  if (session_tag.size() != 36) return;
  const std::string key = keys_.knock(session_tag);
  Transaction both;
  // Something new: a write that changes nothing is passed over.
  both.get(key).set(key, std::to_string(base::random_128().low));
  http_.send({.method = HttpRequest::Method::kPut,
              .target = "/v1/txn",
              .body = both.body(),
              .reads = true},
             [](const Result<HttpReply>&) {});
}

void ConsulBackend::list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                               Done<std::vector<std::string>> done) {
  const std::string all = keys_.locks(prefix);
  get(key_target(all) + "?keys&separator=%2F&consistent", deadline,
      [this, all, prefix, limit, deadline, done = std::move(done)](const Result<HttpReply>& reply) {
        if (!reply) return done(reply.error());
        auto folders = read_keys(*reply, "listing locks");
        if (!folders) return done(folders.error());
        if (folders->empty()) {
          return check_reading(all, deadline, [done](const Result<void>& allowed) {
            if (!allowed) return done(allowed.error());
            done(std::vector<std::string>());
          });
        }
        std::vector<std::string> names;
        for (const std::string& folder : *folders) {
          auto name = keys_.lock_of(folder);
          if (!name || !name->starts_with(prefix)) continue;
          // With the recipe also those who do without share the prefix.
          if (!gate_.on() || gate_.check_name(*name)) names.push_back(*std::move(name));
        }
        std::sort(names.begin(), names.end());
        if (names.size() > limit) names.resize(limit);
        done(std::move(names));
      });
}

void ConsulBackend::probe(BootInstant deadline, Done<std::vector<Finding>> done) {
  examine({[this, deadline](std::string target, std::function<void(Result<HttpReply>)> answer) {
             get(std::move(target), deadline, std::move(answer));
           },
           [this, deadline](std::string body, std::function<void(Result<HttpReply>)> answer) {
             http_.send({.method = HttpRequest::Method::kPut,
                         .target = "/v1/txn",
                         .body = std::move(body),
                         .limit = std::max(1ms, left_until(deadline))},
                        std::move(answer));
           },
           [this, deadline](std::function<void(Result<std::string>)> answer) {
             session_->ensure(deadline, [this, answer](const Result<void>& opened) {
               if (!opened) return answer(opened.error());
               answer(session_->id());
             });
           },
           address_, keys_},
          std::move(done));
}

void ConsulBackend::stop_on_loop(BootInstant deadline, std::function<void()> done) {
  if (std::exchange(closed_, true)) return done();
  watches_->stop();
  hand_ons_->stop();
  writes_->stop();
  read_timer_.stop();
  reads_again_.clear();
  session_->close(deadline, [this, done = std::move(done)] {
    loop_.post([this, done] {
      session_->stop();
      http_.stop();
      done();
    });
  });
}

void ConsulBackend::close(BootInstant deadline) {
  // Once: later the loop may run no more.
  if (watches_ == nullptr || std::exchange(close_called_, true)) return;
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  const auto gate = std::make_shared<Gate>();
  loop_.post([this, deadline, gate] {
    stop_on_loop(deadline, [gate] {
      const std::lock_guard lock(gate->mutex);
      gate->open = true;
      gate->changed.notify_all();
    });
  });
  std::unique_lock lock(gate->mutex);
  gate->changed.wait(lock, [&] { return gate->open; });
}

void ConsulBackend::abandon_after_fork() noexcept {
  http_.abandon();
  read_timer_.abandon();
  session_->abandon();
  writes_->abandon();
  watches_->abandon();
  hand_ons_->abandon();
  // Never destroyed: what they hold is the parent's.
  static_cast<void>(new (std::nothrow) std::shared_ptr<Session>(std::move(session_)));
  static_cast<void>(new (std::nothrow) std::shared_ptr<Writes>(std::move(writes_)));
  static_cast<void>(new (std::nothrow) std::shared_ptr<Watches>(std::move(watches_)));
  static_cast<void>(new (std::nothrow) std::shared_ptr<HandOns>(std::move(hand_ons_)));
}

}  // namespace

Result<std::unique_ptr<contend::Backend>> make_backend(const ConsulAddress& address,
                                                       const port::StoreContext& context) {
  return std::unique_ptr<contend::Backend>(std::make_unique<ConsulBackend>(address, context));
}

}  // namespace holdfast::stores::consul
