#include "src/stores/redlock/engine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/clock_bound.h"
#include "src/base/printable.h"
#include "src/base/random.h"
#include "src/port/outcome.h"
#include "src/port/owner_json.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/fields.h"

namespace holdfast::stores::redlock {
namespace {

using base::BootClock;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;
using redis::Reply;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kFirstPause{4'000};
constexpr microseconds kLongestPause{250'000};
constexpr milliseconds kAfterFirstHint{2};
constexpr milliseconds kAfterExpiry{2};
// A majority is told the token at once, the other nodes that granted a little later: a lock that is
// released sooner costs them one request less, and nobody waits for them.
constexpr milliseconds kSparesAfter{5};
// Two attempts that have each other's majority must not wait for a paused node, one for the other.
constexpr milliseconds kPatienceWhenBusy{25};

// As the scripts keep a token or a lease: 16 digits.
std::string sixteen(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 16 ? 16 - digits.size() : 0, '0') + digits;
}

AcquisitionState state_of(AcquisitionStatus status) { return {.status = status}; }

}  // namespace

Engine::Engine(Nodes& nodes, const port::StoreContext& context, TestClock now)
    : nodes_(nodes),
      loop_(context.loop),
      listener_(context.listener),
      now_(std::move(now)),
      tag_(base::to_hex(base::random_128().high, 0).substr(0, 16)),
      alarms_(*context.io) {}

Engine::BootInstant Engine::instant() const {
  return now_ ? BootInstant(now_().time_since_epoch()) : BootClock::now();
}

// --- Requests.

std::optional<Error> Engine::refuse(const port::AcquireRequest& request) const {
  if (auto malformed = port::refuse_malformed(request)) return malformed;
  if (request.mode.kind != machine::ModeKind::kExclusive || request.upgrade_of) {
    return Error(Errc::kUnsupported,
                 "redlock has exclusive locks only: a majority of nodes does not bound a number of "
                 "holders");
  }
  if (request.ttl > nodes_.address().longest_ttl) {
    return Error(Errc::kInvalidArgument, "a ttl of " + std::to_string(request.ttl.count() / 1000) +
                                             " ms is above longest_ttl, " +
                                             std::to_string(nodes_.address().longest_ttl.count()) +
                                             " ms: ask for a shorter one");
  }
  return std::nullopt;
}

void Engine::acquire(port::AcquireRequest request, Ask done) {
  if (closed_) return done(Error(Errc::kClosed, "the redlock store was closed"));
  if (auto error = refuse(request)) return done(*std::move(error));
  if (ended_.contains(request.id)) return done(state_of(AcquisitionStatus::kGone));
  const std::string name = request.name;
  EntryPtr entry = find(name, request.id);
  Lock& lock = locks_[name];
  if (entry != nullptr) {
    if (entry->phase == Phase::kHeld) return done(entry->state);
    if (entry->phase == Phase::kWaiting && entry->queued) return done(waiting(lock, entry));
    entry->asks.push_back(std::move(done));
    return;
  }
  if (request.may_wait && request.max_waiters > 0 && lock.queue.size() >= request.max_waiters) {
    done(port::to_acquire_result({.outcome = machine::Outcome::kQueueFull}, request, nullptr, {}));
    return tidy(name);
  }
  entry = std::make_shared<Entry>(Entry{std::move(request)});
  entry->alive_until =
      instant() + std::max<BootClock::duration>(entry->request.waiter_ttl, entry->request.ttl);
  if (entry->request.may_wait) entry->alive_until = instant() + entry->request.waiter_ttl;
  entry->asks.push_back(std::move(done));
  lock.queue.push_back(entry);
  advance(name);
}

Engine::EntryPtr Engine::find(const std::string& name, machine::AcquisitionId id) {
  const auto found = locks_.find(name);
  if (found == locks_.end()) return nullptr;
  Lock& lock = found->second;
  if (lock.holder && lock.holder->request.id == id) return lock.holder;
  if (lock.trying && lock.trying->request.id == id) return lock.trying;
  for (const EntryPtr& entry : lock.queue) {
    if (entry->request.id == id) return entry;
  }
  return nullptr;
}

AcquisitionState Engine::waiting(const Lock& lock, const EntryPtr& entry) const {
  AcquisitionState state = state_of(AcquisitionStatus::kWaiting);
  state.seq = entry->seq;
  if (lock.trying && lock.trying != entry) ++state.ahead;
  for (const EntryPtr& each : lock.queue) {
    if (each == entry) break;
    ++state.ahead;
  }
  if (entry->tried) state.next_expiry = entry->tried->free_in;
  return state;
}

void Engine::end(const port::AcquisitionRequest& request, Done<EndStatus> done) {
  ended_.add(request.id);
  const EntryPtr entry = find(request.name, request.id);
  if (entry == nullptr || entry->phase == Phase::kHeld) {
    return release(request.name, request.id, entry, request.deadline, std::move(done));
  }
  answer(*entry, state_of(AcquisitionStatus::kGone));
  if (entry->phase == Phase::kTrying) {  // Answered when the attempt is over.
    entry->withdrawn = true;
    ++ends_;
    entry->ends.push_back([this, done = std::move(done)](Result<EndStatus> how) {
      done(std::move(how));
      ended_one();
    });
    return;
  }
  std::erase(locks_.at(request.name).queue, entry);
  done(EndStatus::kCancelled);
  advance(request.name);
}

// --- Attempts.

// Lets the first waiter try, when somebody awaits the answer or its pause is over. Waiters that
// died meanwhile leave.
void Engine::advance(const std::string& name) {
  const auto found = locks_.find(name);
  if (closed_ || found == locks_.end()) return;
  Lock& lock = found->second;
  if (lock.trying) return tell_waiting(lock);
  const BootInstant now = instant();
  std::erase_if(lock.queue, [&](const EntryPtr& entry) {
    if (!entry->request.may_wait || entry->alive_until > now) return false;
    answer(*entry, state_of(AcquisitionStatus::kGone));
    return true;
  });
  if (lock.queue.empty()) return tidy(name);
  // While this client itself holds, nobody of it need ask.
  const bool ours = lock.holder && lock.holder->sure_until > now;
  const bool due = lock.next_try <= BootClock::now() && !ours;
  if (due || !lock.queue.front()->asks.empty()) return start(name, lock);
  tell_waiting(lock);
}

// By the order of the queue: those behind the first one.
void Engine::tell_waiting(Lock& lock) {
  const std::vector<EntryPtr> queue = lock.queue;
  for (const EntryPtr& entry : queue) {
    if (entry->request.may_wait) {
      entry->queued = true;
      answer(*entry, waiting(lock, entry));
    } else if (!lock.trying) {
      std::erase(lock.queue, entry);
      answer(*entry, state_of(AcquisitionStatus::kBusy));
    }
  }
}

void Engine::start(const std::string& name, Lock& lock) {
  const EntryPtr entry = lock.queue.front();
  lock.queue.erase(lock.queue.begin());
  lock.trying = entry;
  lock.hints = 0;
  entry->phase = Phase::kTrying;
  const bool tokens = nodes_.address().tokens;
  entry->tried = std::make_shared<Try>(Try{Attempt(nodes_.size(), tokens)});
  const TryPtr tried = entry->tried;
  tried->named = tag_ + ' ' + std::to_string(++last_attempt_);
  tried->counts_from = entry->seq;
  tried->sent = instant();
  tried->words.resize(nodes_.size());
  if (!tokens) {
    const auto wall = std::chrono::duration_cast<microseconds>(base::wall_now().time_since_epoch());
    last_token_ = std::max(last_token_ + 1, static_cast<std::uint64_t>(wall.count()));
    entry->token = last_token_;
  }
  const auto ttl = static_cast<std::uint64_t>(entry->request.ttl.count());
  const std::string hold = redis::id_text(entry->request.id) + ' ' +
                           sixteen(tokens ? 0 : entry->token) + ' ' + sixteen(ttl) + ' ' +
                           tried->named + " 0 " + port::write_owner(entry->request.owner);
  const BootInstant now = BootClock::now();
  tried->until = now + std::min<BootClock::duration>(nodes_.address().timeout, entry->request.ttl);
  if (!entry->request.may_wait) tried->until = std::min(tried->until, entry->request.deadline);
  const BootInstant deadline = std::min(tried->until, now + nodes_.address().node_timeout);
  const Nodes::RequestPtr request = nodes_.request(Script::kTake, name, {hold});
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    nodes_.call(node, request, deadline,
                [weak = weak_from_this(), entry, tried, node](const Result<Reply>& reply) {
                  const auto self = weak.lock();
                  if (self && !self->closed_) self->on_taken(entry, tried, node, reply);
                });
  }
  tell_waiting(lock);
}

void Engine::on_taken(const EntryPtr& entry, const TryPtr& tried, std::size_t node,
                      const Result<Reply>& reply) {
  vote(*tried, node, reply);
  const Vote vote = tried->attempt.vote(node);
  if (tried->over && (vote == Vote::kGranted || vote == Vote::kUnknown)) {
    return give_back(*entry, *tried, node);
  }
  if (tried->over || entry->phase != Phase::kTrying || entry->tried != tried) return;
  confirm(entry, tried, /*spares=*/false);
  settle(entry);
}

void Engine::vote(Try& tried, std::size_t node, const Result<Reply>& reply) {
  std::string& words = tried.words[node];
  if (nodes_.forbidden()) tried.attempt.forbid();
  // Without an answer the node may have granted it, and has to be released. With another error it
  // surely did nothing.
  if (!reply) {
    words = reply.error().message();
    if (reply.error().code() == Errc::kOutcomeUnknown) {
      tried.unknown = true;
      return tried.attempt.on_unknown(node);
    }
    if (reply.error().code() != Errc::kUnavailable) tried.refused = reply.error().code();
    return tried.attempt.on_refused(node);
  }
  redis::Fields fields(reply->text);
  const std::string_view word = fields.word();
  if (word == "granted") {
    const auto floor = fields.amount<std::uint64_t>();
    words = "granted it";
    // A counter above all that grants can have made would use up the tokens: it does not count.
    if (fields.good() && nodes_.is_plausible(node, floor)) {
      return tried.attempt.on_granted(node, floor);
    }
    words = nodes_.trouble(node);
    return tried.attempt.on_unknown(node);
  }
  if (word == "busy") {
    const port::Duration left(fields.amount());
    tried.free_in = std::max(tried.free_in.value_or(left), left);
    words = "held by another";
    return tried.attempt.on_busy(node);
  }
  words = reply->text;
  if (word == "toolong") tried.refused = Errc::kInvalidArgument;
  if (word == "corrupt") tried.refused = Errc::kCorruptState;
  // The node belongs to another list of servers, which may have a majority without this one.
  if (word == "foreign") tried.attempt.forbid();
  if (nodes_.note(node, word) && word == "quarantine") {
    words = "lost its memory: takes no part for " +
            std::to_string(redis::Fields(fields.rest()).amount() / 1000) + " ms more";
  }
  tried.attempt.on_refused(node);
}

// The second phase: the token is written back to nodes that granted.
void Engine::confirm(const EntryPtr& entry, const TryPtr& tried, bool spares) {
  auto node = tried->attempt.next_to_confirm(spares);
  if (!node) return;
  const Nodes::RequestPtr request =
      nodes_.request(Script::kHold, entry->request.name,
                     {"confirm", redis::id_text(entry->request.id),
                      sixteen(tried->attempt.token()) + ' ' + tried->named});
  const BootInstant deadline =
      std::min(tried->until, BootClock::now() + nodes_.address().node_timeout);
  for (; node; node = tried->attempt.next_to_confirm(spares)) {
    nodes_.call(*node, request, deadline,
                [weak = weak_from_this(), entry, tried, node = *node](const Result<Reply>& reply) {
                  const auto self = weak.lock();
                  if (self && !self->closed_) self->on_confirmed(entry, tried, node, reply);
                });
  }
  if (spares) return;
  if (spares_.empty()) {
    alarms_.at(BootClock::now() + kSparesAfter, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->confirm_spares();
    });
  }
  spares_.emplace_back(entry, tried);
}

void Engine::on_confirmed(const EntryPtr& entry, const TryPtr& tried, std::size_t node,
                          const Result<Reply>& reply) {
  if (reply && reply->text == "confirmed") {
    tried->attempt.on_confirmed(node);
  } else {
    if (reply) nodes_.note(node, reply->text);
    tried->unknown = tried->unknown || !reply;
    tried->words[node] = "granted it, and then: " + (reply ? reply->text : reply.error().message());
    tried->attempt.on_unknown(node);
  }
  if (tried->over || entry->phase != Phase::kTrying || entry->tried != tried) return;
  confirm(entry, tried, /*spares=*/false);  // Where one failed, another node may do.
  settle(entry);
}

void Engine::confirm_spares() {
  for (const auto& [entry, tried] : std::exchange(spares_, {})) {
    if (!tried->over && !closed_) confirm(entry, tried, /*spares=*/true);
  }
}

void Engine::settle(const EntryPtr& entry) {
  const std::string name = entry->request.name;
  Try& tried = *entry->tried;
  if (nodes_.forbidden()) tried.attempt.forbid();
  const BootInstant sure = base::ClockBound().safe_deadline(tried.sent, entry->request.ttl);
  const bool in_time = instant() < sure && BootClock::now() < tried.until;
  if (!tried.attempt.decided() && in_time) {
    if (entry->request.may_wait && tried.attempt.count(Vote::kBusy) > 0) give_up_soon(entry);
    return;
  }
  // A failure waits for all answers: they are its message, and tell whether anything is left.
  const bool failed = tried.attempt.state() == Attempt::State::kFailed && !nodes_.forbidden();
  if (failed && in_time && tried.attempt.count(Vote::kAsked) > 0) return;
  Lock& lock = locks_.at(name);
  lock.trying = nullptr;
  if (tried.attempt.held() && instant() < sure && !entry->withdrawn) {
    return on_held(name, lock, entry);
  }
  on_lost(name, lock, entry, in_time);
}

void Engine::give_up_soon(const EntryPtr& entry) {
  if (std::exchange(entry->tried->hurries, true)) return;
  alarms_.at(BootClock::now() + kPatienceWhenBusy,
             [weak = weak_from_this(), entry, tried = entry->tried] {
               const auto self = weak.lock();
               const bool asking = tried->attempt.state() == Attempt::State::kAsking;
               if (!self || self->closed_ || tried->over || !asking) return;
               tried->attempt.give_up();
               self->settle(entry);
             });
}

void Engine::on_held(const std::string& name, Lock& lock, const EntryPtr& entry) {
  Try& tried = *entry->tried;
  const bool dead = entry->queued && entry->alive_until <= instant();
  if (nodes_.address().tokens) entry->token = tried.attempt.token();
  entry->phase = Phase::kHeld;
  entry->sure_until = base::ClockBound().safe_deadline(tried.sent, entry->request.ttl);
  entry->state.status = AcquisitionStatus::kHeld;
  entry->state.token = {0, entry->token};
  entry->state.seq = tried.counts_from;
  entry->state.lease = entry->request.ttl;
  lock.holder = entry;
  lock.pause = {};
  if (dead) {
    ended_.add(entry->request.id);
    answer(*entry, state_of(AcquisitionStatus::kGone));
    return release(name, entry->request.id, entry, BootClock::now() + nodes_.address().node_timeout,
                   [](const Result<EndStatus>&) {});
  }
  const bool tell = entry->queued;
  answer(*entry, entry->state);
  if (tell) {
    listener_->on_push({port::Push::Kind::kGranted, entry->request.id, entry->state});
  }
  advance(name);
}

// Everything is given back, whoever asked is answered, and a waiter keeps its turn.
void Engine::on_lost(const std::string& name, Lock& lock, const EntryPtr& entry, bool in_time) {
  const TryPtr tried = entry->tried;
  tried->over = true;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    const Vote vote = tried->attempt.vote(node);
    if (vote != Vote::kAsked && vote != Vote::kBusy && vote != Vote::kRefused) {
      give_back(*entry, *tried, node);
    }
  }
  if (entry->withdrawn) {
    entry->phase = Phase::kWaiting;
    answer(*entry, state_of(AcquisitionStatus::kGone));
    for (const auto& done : std::exchange(entry->ends, {})) done(EndStatus::kCancelled);
    return advance(name);
  }
  const bool busy = tried->attempt.state() == Attempt::State::kBusy;
  entry->phase = Phase::kWaiting;
  if (busy && entry->request.may_wait) return put_back(name, lock, entry, true);
  if (busy) {
    AcquisitionState state = state_of(AcquisitionStatus::kBusy);
    state.next_expiry = tried->free_in;
    answer(*entry, state);
    return advance(name);
  }
  const Error why = failure(name, *tried, in_time);
  if (entry->queued) {
    answer(*entry, why);
    return put_back(name, lock, entry, false);
  }
  answer(*entry, why);
  advance(name);
}

void Engine::put_back(const std::string& name, Lock& lock, const EntryPtr& entry, bool busy) {
  lock.queue.insert(lock.queue.begin(), entry);
  lock.pause = std::clamp(lock.pause * 2, kFirstPause, kLongestPause);
  auto pause = std::chrono::nanoseconds(jitter_.upper_half(lock.pause));
  const auto& free_in = entry->tried->free_in;
  if (free_in && !now_) pause = std::min<std::chrono::nanoseconds>(pause, *free_in + kAfterExpiry);
  lock.next_try = BootClock::now() + pause;
  alarms_.at(lock.next_try, [weak = weak_from_this(), name] {
    if (const auto self = weak.lock()) self->advance(name);
  });
  if (busy) listen(name, lock);
  std::vector<Ask> again = std::exchange(entry->late_asks, {});
  if (again.empty()) return tell_waiting(lock);
  answer(*entry, waiting(lock, entry));
  entry->asks = std::move(again);
  advance(name);
}

Error Engine::failure(const std::string& name, const Try& tried, bool in_time) const {
  if (nodes_.forbidden()) return *nodes_.forbidden();
  const bool unknown = tried.unknown || tried.attempt.count(Vote::kConfirming) > 0 ||
                       tried.attempt.count(Vote::kAsked) > 0;
  std::vector<std::string> words = tried.words;
  for (std::string& each : words) {
    if (each.empty()) each = "no answer in time";
  }
  const Errc code = unknown ? Errc::kOutcomeUnknown : tried.refused.value_or(Errc::kUnavailable);
  return {code, nodes_.address().display() + ": lock '" + base::printable(name) +
                    "': " + (in_time ? "" : "not decided in time; ") +
                    std::to_string(nodes_.majority()) + " of " + std::to_string(nodes_.size()) +
                    " nodes must grant it: " + nodes_.outcomes(words)};
}

void Engine::give_back(const Entry& entry, const Try& tried, std::size_t node) {
  const bool late = tried.attempt.vote(node) == Vote::kUnknown;
  nodes_.call(node,
              nodes_.request(
                  Script::kHold, entry.request.name,
                  {"undo", redis::id_text(entry.request.id), (late ? "z " : "- ") + tried.named}),
              BootClock::now() + nodes_.address().longest_ttl, [](const Result<Reply>&) {});
}

// --- Waiting.

void Engine::hint(std::size_t node, std::string_view key) {
  const std::size_t prefix = Nodes::key_of("").size();
  if (closed_ || key.size() <= prefix) return;
  const auto found = locks_.find(std::string(key.substr(prefix)));
  if (found == locks_.end() || found->second.trying || found->second.queue.empty()) return;
  Lock& lock = found->second;
  lock.hints |= 1U << node;
  // The other nodes hear of the release a moment later: who asks too early finds them busy.
  const bool enough = static_cast<std::size_t>(std::popcount(lock.hints)) >= nodes_.majority();
  const auto pause = enough ? jitter_.up_to(microseconds(300)) : microseconds(kAfterFirstHint);
  const BootInstant when = BootClock::now() + pause;
  if (when >= lock.next_try) return;
  lock.next_try = when;
  lock.pause = {};
  alarms_.at(when, [weak = weak_from_this(), name = found->first] {
    if (const auto self = weak.lock()) self->advance(name);
  });
}

void Engine::listen(const std::string& name, Lock& lock) {
  if (!std::exchange(lock.listens, true)) nodes_.listen(name);
}

void Engine::tidy(const std::string& name) {
  const auto found = locks_.find(name);
  if (found == locks_.end()) return;
  Lock& lock = found->second;
  if (lock.queue.empty() && !lock.trying && std::exchange(lock.listens, false)) {
    nodes_.stop_listening(name);
  }
  if (lock.idle()) locks_.erase(found);
}

void Engine::answer(Entry& entry, const Result<AcquisitionState>& result) {
  for (const Ask& ask : std::exchange(entry.asks, {})) ask(result);
  if (entry.phase == Phase::kTrying) return;
  for (const Ask& ask : std::exchange(entry.late_asks, {})) ask(result);
}

void Engine::when_ended(port::Task task) {
  all_ended_ = std::move(task);
  ++ends_;
  ended_one();
}

void Engine::ended_one() {
  if (--ends_ == 0 && all_ended_) std::exchange(all_ended_, nullptr)();
}

void Engine::close() {
  closed_ = true;
  alarms_.stop();
  const Error why(Errc::kClosed, "the redlock store was closed");
  for (auto& [name, lock] : locks_) {
    for (const EntryPtr& entry : lock.queue) answer(*entry, why);
    for (const EntryPtr& entry : {lock.trying, lock.holder}) {
      if (entry == nullptr) continue;
      answer(*entry, why);
      for (const auto& done : std::exchange(entry->ends, {})) done(why);
    }
  }
  locks_.clear();
}

}  // namespace holdfast::stores::redlock
