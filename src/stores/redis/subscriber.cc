#include "src/stores/redis/subscriber.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/random.h"
#include "src/stores/redis/backoff.h"
#include "src/stores/redis/boot_timer.h"
#include "src/stores/redis/errors.h"
#include "src/stores/redis/loop_link.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;
using base::BootInstant;

constexpr std::chrono::seconds kGoodLife{1};

}  // namespace

// Everything but ensure(), close() and confirmed() runs on the loop.
class Subscriber::Impl final : public LinkOwner, public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, RemotePtr remote, std::string channel, Events events, Timing timing)
      : io_(io),
        where_(remote->address.display()),
        channel_(std::move(channel)),
        events_(std::move(events)),
        timing_(timing),
        link_(std::make_shared<LoopLink>(io, std::move(remote), *this, ReplyLimits{})),
        timer_(io, [this] { on_timer(); }) {}

  void ensure(BootInstant deadline, port::Done<void> done) {
    asio::post(io_, [self = shared_from_this(), deadline, done = std::move(done)]() mutable {
      self->ensure_on_loop(deadline, std::move(done));
    });
  }
  bool confirmed() const noexcept { return confirmed_.load(std::memory_order_acquire); }
  void close();
  void abandon() noexcept {
    abandoned_ = true;
    link_->abandon();
    timer_.abandon();
  }

  void on_up() override;
  void on_reply(Reply reply) override;
  void on_written() override {}
  void on_down(Error why) override;

 private:
  struct Waiter {
    BootInstant deadline;
    port::Done<void> done;
  };

  void ensure_on_loop(BootInstant deadline, port::Done<void> done);
  void on_confirmed();
  void on_timer();
  void arm();
  void ping();
  void shut();
  void end_waiters(const Result<void>& result);
  Error closed_error() const {
    return {Errc::kClosed, where_ + ": the client is closed: connect anew"};
  }

  asio::io_context& io_;
  const std::string where_;
  const std::string channel_;
  const Events events_;
  const Timing timing_;
  std::atomic<bool> confirmed_{false};
  std::atomic<bool> closed_{false};
  bool abandoned_ = false;

  const std::shared_ptr<LoopLink> link_;
  BootTimer timer_;
  std::vector<Waiter> waiters_;
  bool started_ = false;
  bool up_ = false;
  bool shut_ = false;
  bool was_confirmed_ = false;  // On some connection before.
  Backoff backoff_;
  BootInstant up_since_{};
  BootInstant heard_{};
  BootInstant next_attempt_ = BootInstant::max();
  BootInstant next_ping_ = BootInstant::max();
};

void Subscriber::Impl::ensure_on_loop(BootInstant deadline, port::Done<void> done) {
  if (shut_) return done(closed_error());
  if (confirmed()) return done({});
  waiters_.push_back({deadline, std::move(done)});
  if (!std::exchange(started_, true)) link_->start();
  arm();
}

void Subscriber::Impl::on_up() {
  up_ = true;
  up_since_ = heard_ = BootClock::now();
  next_ping_ = heard_ + timing_.ping_every;
  std::string wire;
  const std::string_view args[] = {"SUBSCRIBE", channel_};
  append_command(wire, args);
  link_->write(wire);
  arm();
}

void Subscriber::Impl::on_reply(Reply reply) {
  heard_ = BootClock::now();
  if (reply.is_error()) return link_->fail(to_error(reply, where_ + ": cannot subscribe"));
  // [subscribe channel count], [message channel payload], [pong ""].
  if (reply.kind != Reply::Kind::kArray || reply.items.size() < 2) return;
  const std::string& kind = reply.items[0].text;
  if (kind == "message" && reply.items.size() == 3) {
    if (events_.on_message) events_.on_message(reply.items[2].text);
  } else if (kind == "subscribe" && !confirmed()) {
    on_confirmed();
  }
}

void Subscriber::Impl::on_confirmed() {
  confirmed_.store(true, std::memory_order_release);
  const bool again = std::exchange(was_confirmed_, true);
  end_waiters({});
  if (!shut_ && events_.on_subscribed) events_.on_subscribed(again);
}

void Subscriber::Impl::on_down(Error why) {
  if (shut_) return;
  const bool was_up = std::exchange(up_, false);
  const bool was_confirmed = confirmed_.exchange(false);
  const BootInstant now = BootClock::now();
  const bool was_good = was_confirmed && now - up_since_ >= kGoodLife;
  if (was_good) backoff_.reset();
  next_attempt_ = was_good ? now : now + backoff_.next(base::random_128().low);
  next_ping_ = BootInstant::max();
  if (was_confirmed && events_.on_lost) events_.on_lost(why);
  // After a loss the next attempt is theirs; an attempt that failed, and a refusal, is told.
  if (!was_up || why.code() != Errc::kUnavailable) end_waiters(std::move(why));
  arm();
}

void Subscriber::Impl::end_waiters(const Result<void>& result) {
  std::vector<Waiter> ended;
  ended.swap(waiters_);
  for (const Waiter& waiter : ended) waiter.done(result);
}

void Subscriber::Impl::arm() {
  if (shut_) return;
  BootInstant at = std::min(next_attempt_, next_ping_);
  for (const Waiter& waiter : waiters_) at = std::min(at, waiter.deadline);
  timer_.arm(at);
}

void Subscriber::Impl::on_timer() {
  if (shut_) return;
  const BootInstant now = BootClock::now();
  if (next_attempt_ <= now) {
    next_attempt_ = BootInstant::max();
    link_->start();
  }
  if (next_ping_ <= now) ping();
  const auto late = std::stable_partition(waiters_.begin(), waiters_.end(),
                                          [&](const Waiter& each) { return each.deadline > now; });
  std::vector<Waiter> ended(std::make_move_iterator(late), std::make_move_iterator(waiters_.end()));
  waiters_.erase(late, waiters_.end());
  for (const Waiter& waiter : ended) {
    waiter.done(Error{Errc::kUnavailable,
                      where_ + ": the subscription was not confirmed within the deadline: retry"});
  }
  arm();
}

void Subscriber::Impl::ping() {
  const BootInstant now = BootClock::now();
  next_ping_ = now + timing_.ping_every;
  if (now - heard_ >= timing_.dead_after) {
    next_ping_ = BootInstant::max();
    return link_->fail({Errc::kUnavailable, where_ + ": the server has been silent for too long"});
  }
  if (now - heard_ < timing_.ping_every || !link_->can_write()) return;
  std::string wire = Handshake::ping();
  link_->write(wire);
}

void Subscriber::Impl::shut() {
  if (std::exchange(shut_, true)) return;
  confirmed_ = false;
  link_->stop();
  timer_.stop();
  end_waiters(closed_error());
}

void Subscriber::Impl::close() {
  if (abandoned_ || closed_.exchange(true)) return;
  run_on_loop(io_, [self = shared_from_this()] { self->shut(); });
}

Subscriber::Subscriber(asio::io_context& io, RemotePtr remote, std::string channel, Events events)
    : Subscriber(io, std::move(remote), std::move(channel), std::move(events), Timing()) {}

Subscriber::Subscriber(asio::io_context& io, RemotePtr remote, std::string channel, Events events,
                       Timing timing)
    : impl_(std::make_shared<Impl>(io, std::move(remote), std::move(channel), std::move(events),
                                   timing)) {}

Subscriber::~Subscriber() {
  if (impl_ != nullptr) impl_->close();
}

void Subscriber::ensure(BootInstant deadline, port::Done<void> done) {
  impl_->ensure(deadline, std::move(done));
}

bool Subscriber::confirmed() const noexcept { return impl_->confirmed(); }
void Subscriber::close() { impl_->close(); }

void Subscriber::abandon_after_fork() noexcept {
  impl_->abandon();
  static_cast<void>(new (std::nothrow) std::shared_ptr<Impl>(impl_));
}

}  // namespace holdfast::stores::redis
