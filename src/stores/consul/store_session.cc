#include "src/stores/consul/store_session.h"

#include <algorithm>

#include "holdfast/detail/renewal_schedule.h"
#include "src/stores/consul/transport/errors.h"
#include "src/stores/consul/transport/messages.h"

namespace holdfast::stores::consul {
namespace {

using base::BootClock;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr milliseconds kLongestTry = 2s;
constexpr milliseconds kFirstPause = 50ms;
constexpr milliseconds kLongestPause = 1s;
constexpr milliseconds kListen = 5min;
constexpr char kOpens[] = "opening a session";
constexpr char kMakesKeys[] = "making the session's keys";
constexpr char kRenews[] = "renewing the session";

HttpRequest destroying(const std::string& id, milliseconds limit) {
  return {.method = HttpRequest::Method::kPut,
          .target = "/v1/session/destroy/" + id,
          .reads = true,  // Repeating it does no harm.
          .urgent = true,
          .limit = limit};
}

milliseconds renewal_limit(milliseconds ttl) {
  const auto part = detail::RenewalSchedule(ttl).try_time();
  return std::clamp(std::chrono::floor<milliseconds>(part), milliseconds(100), kLongestTry);
}

milliseconds pause_after(int failures) {
  return std::min(kLongestPause, kFirstPause * (1 << std::min(failures, 5)));
}

}  // namespace

StoreSession::StoreSession(asio::io_context& io, HttpLoop& http, const Keys& keys,
                           SessionTerms terms, Events events)
    : http_(http),
      keys_(keys),
      terms_(std::move(terms)),
      events_(std::move(events)),
      timer_(io),
      listen_timer_(io),
      destroy_timer_(io) {}

void StoreSession::ensure(base::BootInstant deadline, Done done) {
  waiting_.emplace_back(deadline, std::move(done));
  if (state_ == State::kNone) {
    attempts_ = 0;
    start_opening();
  } else if (state_ != State::kOpening) {
    timer_.arm(0ns, [this] { on_timer(); });
  }
}

void StoreSession::answer_waiting(const Result<void>& result) {
  for (auto& [deadline, done] : std::exchange(waiting_, {})) done(result);
}

void StoreSession::start_opening() {
  base::BootInstant until{};
  for (const auto& [deadline, done] : waiting_) until = std::max(until, deadline);
  state_ = State::kOpening;
  const auto sent = BootClock::now();
  HttpRequest request{.method = HttpRequest::Method::kPut,
                      .target = "/v1/session/create",
                      .body = session_body(terms_),
                      .reads = true,  // A second session has no keys: it just expires.
                      .urgent = true,
                      .limit = std::min(left_until(until), kLongestTry)};
  http_.send(std::move(request), [weak = weak_from_this(), sent, until](Result<HttpReply> reply) {
    const auto self = weak.lock();
    if (self == nullptr || self->state_ != State::kOpening) return;
    auto id = reply ? read_session_id(*reply, kOpens) : Result<std::string>(reply.error());
    if (id) return self->make_keys(*std::move(id), sent, until);
    // Another agent may succeed.
    if (id.error().code() == Errc::kUnavailable && ++self->attempts_ < 3 &&
        left_until(until) > 0ms) {
      return self->start_opening();
    }
    self->state_ = State::kNone;
    self->answer_waiting(id.error());
  });
}

void StoreSession::make_keys(const std::string& id, base::BootInstant sent,
                             base::BootInstant until) {
  Transaction both;
  both.lock(keys_.fence(id), "", id).lock(keys_.notify(id), "", id);
  HttpRequest request{.method = HttpRequest::Method::kPut,
                      .target = "/v1/txn",
                      .body = both.body(),
                      .urgent = true,
                      .limit = std::min(left_until(until), kLongestTry)};
  http_.send(std::move(request), [weak = weak_from_this(), id, sent](Result<HttpReply> reply) {
    const auto self = weak.lock();
    if (self == nullptr || self->state_ != State::kOpening) return;
    auto answer = reply ? read_transaction(*reply, kMakesKeys, /*reads=*/true)
                        : Result<TransactionReply>(reply.error());
    if (answer && answer->done && !answer->pairs.empty()) {
      return self->opened(id, answer->pairs[0].modified, sent);
    }
    self->state_ = State::kNone;
    // No contender depends on that session yet, so an unknown outcome is as good as a refusal.
    Error why =
        answer ? Error(Errc::kUnavailable, std::string(kMakesKeys) + ": Consul refused them (" +
                                               answer->why + "); try again")
               : answer.error();
    if (why.code() == Errc::kOutcomeUnknown) why = Error(Errc::kUnavailable, why.message());
    self->answer_waiting(why);
  });
}

void StoreSession::opened(std::string id, std::uint64_t fence, base::BootInstant sent) {
  id_ = std::move(id);
  fence_ = fence;
  ++epoch_;
  failures_ = 0;
  renewing_ = false;
  deadline_ = sent + terms_.ttl;
  renew_at_ = sent + detail::RenewalSchedule(terms_.ttl).renew_after();
  state_ = State::kOpen;
  listen(fence);
  wait_for_next();
  answer_waiting({});
}

void StoreSession::wait_for_next() {
  const auto at = renewing_ ? deadline_ : std::min(renew_at_, deadline_);
  timer_.arm(std::max<std::chrono::nanoseconds>(0ns, at - BootClock::now()),
             [this] { on_timer(); });
}

void StoreSession::on_timer() {
  if (state_ == State::kNone && !waiting_.empty()) return start_opening();
  if (state_ == State::kClosed) {
    return answer_waiting(Error(Errc::kClosed, "the client was closed"));
  }
  if (state_ != State::kOpen) return;
  const auto now = BootClock::now();
  if (now >= deadline_) {
    return end({Errc::kLost, "Consul did not confirm the session within its ttl"});
  }
  answer_waiting({});
  if (!renewing_ && now >= renew_at_) renew();
  wait_for_next();
}

void StoreSession::suspect() {
  if (state_ != State::kOpen || renewing_) return;
  renew_at_ = BootClock::now();
  wait_for_next();
}

void StoreSession::renew() {
  renewing_ = true;
  const auto sent = BootClock::now();
  HttpRequest request{.method = HttpRequest::Method::kPut,
                      .target = "/v1/session/renew/" + id_,
                      .reads = true,  // Repeating it does no harm.
                      .urgent = true,
                      .limit = renewal_limit(terms_.ttl)};
  http_.send(std::move(request),
             [weak = weak_from_this(), sent, mine = epoch_](const Result<HttpReply>& reply) {
               const auto self = weak.lock();
               if (self == nullptr || self->state_ != State::kOpen || self->epoch_ != mine) return;
               self->on_renewed(sent, reply);
             });
}

void StoreSession::on_renewed(base::BootInstant sent, const Result<HttpReply>& reply) {
  if (reply && reply->status == 404 && BootClock::now() < deadline_) return make_sure_of_the_end();
  renewing_ = false;
  // A late answer does not count: it may come from a paused leader that was replaced since.
  if (BootClock::now() >= deadline_) return on_timer();
  if (reply && reply->status == 200) {
    failures_ = 0;
    deadline_ = std::max(deadline_, sent + terms_.ttl);
    renew_at_ = sent + detail::RenewalSchedule(terms_.ttl).renew_after();
    return wait_for_next();
  }
  not_renewed(reply ? to_error(*reply, kRenews, /*reads=*/true) : reply.error());
}

void StoreSession::not_renewed(const Error& why) {
  if (++failures_ == 2) events_.on_alarm("the session cannot be renewed: " + why.message());
  renew_at_ = BootClock::now() + pause_after(failures_);
  wait_for_next();
}

// A new leader answers renewals before it has applied all of its log, so it may not know a session
// that lives. A consistent read waits until the log is applied.
void StoreSession::make_sure_of_the_end() {
  http_.send({.target = key_target(keys_.fence(id_)) + "?consistent",
              .reads = true,
              .urgent = true,
              .limit = renewal_limit(terms_.ttl)},
             [weak = weak_from_this(), mine = epoch_](const Result<HttpReply>& reply) {
               const auto self = weak.lock();
               if (self == nullptr || self->state_ != State::kOpen || self->epoch_ != mine) return;
               self->on_looked_for(reply);
             });
}

void StoreSession::on_looked_for(const Result<HttpReply>& reply) {
  renewing_ = false;
  if (BootClock::now() >= deadline_) return on_timer();
  const auto pairs = reply ? read_pairs(*reply, kRenews) : Result<std::vector<Pair>>(reply.error());
  if (!pairs) return not_renewed(pairs.error());
  if (pairs->empty() || pairs->front().session != id_) {
    return end({Errc::kLost, "Consul has ended the session: it expired there, or was destroyed"});
  }
  not_renewed({Errc::kUnavailable, "the server that leads now is still reading its log"});
}

void StoreSession::end(const Error& why) {
  state_ = State::kNone;
  ++listening_;
  ended_.push_back(id_);
  if (ended_.size() == 1) see_off();
  events_.on_ended(epoch_, why);
  if (state_ == State::kNone && !waiting_.empty()) start_opening();
}

// Destroys ended sessions one after the other, and retries until Consul answers. Otherwise their
// keys would last for up to another ttl, which begins again when a leader is elected.
void StoreSession::see_off() {
  http_.send(destroying(ended_.front(), kLongestTry),
             [weak = weak_from_this()](const Result<HttpReply>& reply) {
               const auto self = weak.lock();
               if (self == nullptr || self->state_ == State::kClosed) return;
               const bool answered = reply && reply->status < 500 && !reply->doubtful;
               if (answered) self->ended_.pop_front();
               if (self->ended_.empty()) return;
               if (answered) return self->see_off();
               self->destroy_timer_.arm(kLongestPause, [raw = self.get()] { raw->see_off(); });
             });
}

void StoreSession::give_up(const Error& why) {
  if (state_ == State::kOpen) end(why);
}

void StoreSession::listen(std::uint64_t index) {
  const std::uint64_t mine = ++listening_;
  HttpRequest request{.target = "/v1/kv/" + encode_path(keys_.notify(id_)) +
                                "?wait=5m&index=" + std::to_string(index),
                      .reads = true,
                      .waits = true,
                      .urgent = true,
                      .limit = kListen + 30s};
  http_.send(std::move(request),
             [weak = weak_from_this(), mine, index](const Result<HttpReply>& reply) {
               const auto self = weak.lock();
               if (self == nullptr || self->state_ != State::kOpen || self->listening_ != mine)
                 return;
               self->on_heard(index, reply);
             });
}

void StoreSession::on_heard(std::uint64_t index, const Result<HttpReply>& reply) {
  if (reply && reply->status == 200 && reply->index > 0) {
    if (reply->index != index) events_.on_notify();
    if (state_ == State::kOpen) listen(reply->index);
    return;
  }
  // The key ends with the session, so a missing key may mean that the session has ended.
  if (reply && reply->status == 404) suspect();
  // No notification is missed in between: it changes the index.
  listen_timer_.arm(kLongestPause, [this, index, mine = listening_] {
    if (state_ == State::kOpen && listening_ == mine) listen(index);
  });
}

void StoreSession::close(base::BootInstant deadline, std::function<void()> done) {
  const bool was_open = state_ == State::kOpen;
  stop();
  if (!was_open) return done();
  http_.send(destroying(id_, std::max(1ms, left_until(deadline))),
             [done = std::move(done)](const Result<HttpReply>&) { done(); });
}

void StoreSession::stop() {
  state_ = State::kClosed;
  ++listening_;
  timer_.stop();
  listen_timer_.stop();
  destroy_timer_.stop();
  answer_waiting(Error(Errc::kClosed, "the client was closed"));
}

void StoreSession::abandon() noexcept {
  timer_.abandon();
  listen_timer_.abandon();
  destroy_timer_.abandon();
}

}  // namespace holdfast::stores::consul
