#include "src/stores/consul/transport/gate.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace holdfast::stores::consul {
namespace {

using base::BootClock;
using contend::Gate;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

// The flags with which `consul lock` marks its keys.
constexpr std::uint64_t kLockFlag = 0x2ddccbc058a50c18;
// Where nobody knows how long a delay lasts.
constexpr milliseconds kBetweenAttempts = 500ms;
constexpr std::size_t kMostDelays = 1000;

contend::QueueEntry stranger_of(const Pair& pair, const std::optional<SessionInfo>& session) {
  contend::QueueEntry place;
  machine::OwnerInfo owner;
  owner.owner = "session " + pair.session;
  owner.program = "consul lock";
  place.details.emplace();
  if (session) {
    owner.host = session->node;
    owner.reason = session->name;
    place.details->lease = session->ttl.value_or(0ms);
  }
  place.details->marked = true;
  place.details->session = pair.session;
  place.details->owner = std::make_shared<const machine::OwnerInfo>(owner);
  place.created = pair.created;
  place.modified = pair.modified;
  return place;
}

std::string seconds_of(milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(time.count()) / 1000);
  return text;
}

}  // namespace

Result<void> LockGate::check_name(const std::string& lock) const {
  const bool plain = std::all_of(lock.begin(), lock.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._/:@=+,").find(static_cast<char>(c)) != std::string_view::npos;
  });
  const std::string slashed = "/" + lock + "/";
  if (plain && slashed.find("//") == std::string::npos &&
      slashed.find("/./") == std::string::npos && slashed.find("/../") == std::string::npos) {
    return {};
  }
  return Error(Errc::kInvalidArgument,
               "with recipe=consul a name is a path of letters, digits and -._:@=+, as "
               "'consul lock' has it; none of its segments is empty, '.' or '..'");
}

void LockGate::pass(Pass pass) { attempt(std::make_shared<Pass>(std::move(pass)), std::nullopt); }

// `index`: of the key as it was read; none: there was none.
void LockGate::attempt(const PassPtr& pass, std::optional<std::uint64_t> index) {
  const std::string key = key_of(pass->lock);
  Write write{.lock = pass->lock,
              .epoch = pass->epoch,
              .what = "acquire",
              .steps = {},
              .deadline = pass->deadline,
              .done = {}};
  write.steps = [this, pass, key, index, id = session_.id()](Transaction& all) {
    const std::string text = contend::to_text(pass->details);
    all.check_session(pass->contender, id);
    if (index) {
      all.check_index(key, *index);
    } else {
      all.check_not_exists(key);
    }
    all.lock(key, text, id, kLockFlag).lock(pass->contender, text, id, flags());
  };
  write.done = [this, pass](const Result<TransactionReply>& answer) { on_attempt(pass, answer); };
  writes_.send(std::move(write));
}

void LockGate::on_attempt(const PassPtr& pass, const Result<TransactionReply>& answer) {
  // The outcome is unknown: the key is looked at again, after the fence.
  if (!answer && answer.error().code() == Errc::kOutcomeUnknown) {
    inside_[pass->contender] = true;  // Perhaps: whoever leaves now finds out.
    return look(pass);
  }
  if (!answer) return pass->done(answer.error());
  if (answer->done && !answer->pairs.empty()) {
    const Pair& pair = answer->pairs.back();
    inside_[pass->contender] = true;
    delays_.erase(pass->lock);
    return pass->done(Gate{contend::Read{pass->details, pair.created, pair.modified}, {}});
  }
  if (answer->failed_at == 0) {
    return pass->done(Error(Errc::kUnavailable, "its queue entry is gone; try again"));
  }
  if (answer->why.find("lock delay") != std::string::npos) return wait_for_delay(pass);
  look(pass);
}

void LockGate::look(const PassPtr& pass) {
  get_("/v1/kv/" + encode_path(key_of(pass->lock)) + "?consistent", pass->deadline,
       [this, pass](const Result<HttpReply>& reply) {
         if (!reply) return pass->done(reply.error());
         const auto pairs = read_pairs(*reply, "acquire");
         if (!pairs) return pass->done(pairs.error());
         if (left_until(pass->deadline) <= 0ms) {
           return pass->done(
               Error(Errc::kUnavailable,
                     "the time for the request was over before it could be taken; try again"));
         }
         on_look(pass, pairs->empty() ? std::nullopt : std::optional(pairs->front()));
       });
}

void LockGate::on_look(const PassPtr& pass, const std::optional<Pair>& pair) {
  if (!pair) return attempt(pass, std::nullopt);
  if (pair->flags != kLockFlag) {
    return pass->done(Error(
        Errc::kInvalidArgument,
        "'" + pair->key + "' is in use, but not by 'consul lock' (n = 1); choose another name"));
  }
  // With our session: an attempt whose answer was lost, or one of ours that was not given back.
  if (pair->session.empty() || pair->session == session_.id()) return attempt(pass, pair->modified);
  wait_for_holder(pass, *pair);
}

void LockGate::wait_for_holder(const PassPtr& pass, const Pair& pair) {
  if (delays_.size() > kMostDelays) delays_.clear();
  Delay& delay = delays_[pass->lock];
  const bool known = delay.session == pair.session;
  if (!known) delay = {pair.session, 0ms, {}, false};
  if (const auto waker = pass->waker.lock()) {
    watches_.add("/v1/kv/" + encode_path(pair.key) + "?", pair.modified, waker);
  }
  pass->done(Gate{});
  if (known) return;
  // For the day it ends without a release.
  get_("/v1/session/info/" + pair.session, BootClock::now() + 10s,
       [this, lock = pass->lock, session = pair.session](const Result<HttpReply>& reply) {
         if (!reply) return;
         const auto told = read_session(*reply);
         const auto found = delays_.find(lock);
         if (!told || found == delays_.end() || found->second.session != session) return;
         found->second.length = told->lock_delay.value_or(0ms);
       });
}

void LockGate::note(const std::string& lock, const Pair& before) {
  if (delays_.size() > kMostDelays) delays_.clear();
  Delay& delay = delays_[lock];
  if (delay.session == before.session && !delay.ended) return;
  const auto most = std::min<std::uint64_t>(before.flags, 60'000);
  delay = {before.session, milliseconds(most), {}, false};
}

void LockGate::wait_for_delay(const PassPtr& pass) {
  const auto found = delays_.find(pass->lock);
  Gate gate;
  milliseconds again = kBetweenAttempts;
  if (found != delays_.end() && found->second.length > 0ms) {
    Delay& delay = found->second;
    const auto now = BootClock::now();
    if (!delay.ended) delay.ended = now;
    const auto left = std::chrono::ceil<milliseconds>(*delay.ended + delay.length - now);
    gate.opens_in = std::max(left, 1ms);
    // Consul counts from a little earlier than we saw it, and forgets in its own time.
    again = std::max(left, 10ms);
    if (!std::exchange(delay.told, true)) {
      alarm_("lock '" + pass->lock + "': its holder's session ended without a release; Consul's " +
             "lock-delay keeps it shut for " + seconds_of(left));
    }
  }
  if (const auto waker = pass->waker.lock()) watches_.wake_after(waker, again);
  pass->done(gate);
}

void LockGate::find_stranger(const std::string& lock, base::BootInstant deadline,
                             std::function<void(Result<std::optional<contend::QueueEntry>>)> done) {
  using Found = std::optional<contend::QueueEntry>;
  get_("/v1/kv/" + encode_path(key_of(lock)) + "?consistent", deadline,
       [this, deadline, done = std::move(done)](const Result<HttpReply>& reply) {
         if (!reply) return done(reply.error());
         const auto pairs = read_pairs(*reply, "reading");
         if (!pairs) return done(pairs.error());
         if (pairs->empty()) return done(Found());
         const Pair& pair = pairs->front();
         // A contender's own text is its value: that one stands in the queue.
         if (pair.session.empty() || contend::parse_details(pair.value())) return done(Found());
         // Only its session names the holder; without the permission to read that, nobody does.
         get_("/v1/session/info/" + pair.session, deadline,
              [pair, done](const Result<HttpReply>& told) {
                done(Found(stranger_of(pair, told ? read_session(*told) : std::nullopt)));
              });
       });
}

}  // namespace holdfast::stores::consul
