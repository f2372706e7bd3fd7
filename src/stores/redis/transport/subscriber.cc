#include "src/stores/redis/transport/subscriber.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/abandon.h"
#include "src/base/brief_spin.h"
#include "src/base/local_mutex.h"
#include "src/base/random.h"
#include "src/port/boot_timer.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/transport/backoff.h"
#include "src/stores/redis/transport/loop_link.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;
using base::BootInstant;

// A handoff between threads of one client takes half of it with a server near by.
constexpr std::chrono::microseconds kLooksForPush(200);

int make_event_fd() {
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "cannot make an event");
  return fd;
}

}  // namespace

// Everything except ensure(), close(), confirmed() and the push reader runs on the loop.
//
// The push reader: while a thread listens, the link lends it the replies. The thread asks for the
// loan; the loop gives it once the subscription is confirmed, and takes it back when nobody
// listens.
class Subscriber::Impl final : public LinkOwner,
                               public port::PushReader,
                               public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, RemotePtr remote, std::string channel, Events events, Timing timing)
      : io_(io),
        remote_(remote),
        where_(remote->address.display()),
        channel_(std::move(channel)),
        events_(std::move(events)),
        timing_(timing),
        link_(std::make_shared<LoopLink>(io, std::move(remote), *this, ReplyLimits{})),
        timer_(io),
        nudged_(make_event_fd()) {}
  ~Impl() override { ::close(nudged_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void listen() override;
  void rest() override;
  void nudge() noexcept override;

  void ensure(BootInstant deadline, port::Done<void> done) {
    asio::post(io_, [self = shared_from_this(), deadline, done = std::move(done)]() mutable {
      self->ensure_on_loop(deadline, std::move(done));
    });
  }
  bool confirmed() const noexcept { return confirmed_.load(std::memory_order_acquire); }
  void want(std::string channel, bool wanted) {
    asio::post(io_, [self = shared_from_this(), channel = std::move(channel), wanted]() mutable {
      self->want_on_loop(std::move(channel), wanted);
    });
  }
  void close();
  void abandon() noexcept {
    abandoned_ = true;
    link_->abandon();
    timer_.abandon();
    ::close(nudged_);
  }

  void on_up() override;
  void on_reply(Reply reply) override;
  void on_written() override { write_on(); }
  void on_down(Error why) override;
  void on_moved() override;

 private:
  struct Waiter {
    BootInstant deadline;
    port::Done<void> done;
  };

  void ensure_on_loop(BootInstant deadline, port::Done<void> done);
  void want_on_loop(std::string channel, bool wanted);
  void ask_for(bool join, const std::string& channel);
  bool on_shard_reply(const Reply& reply);
  void drop(const std::string& channel, const Error& why);
  void write_on();
  void on_confirmed();
  void lend();
  void take_back();
  void end_loan();
  bool await_news(int descriptor);
  void on_heard(Reply reply, std::uint64_t located);
  void on_timer();
  void arm();
  void ping();
  void shut();
  void end_waiters(const Result<void>& result);
  Error closed_error() const {
    return {Errc::kClosed, where_ + ": the client is closed: connect again"};
  }

  asio::io_context& io_;
  const RemotePtr remote_;
  const std::string where_;
  const std::string channel_;
  const Events events_;
  const Timing timing_;
  std::atomic<bool> confirmed_{false};
  std::atomic<bool> closed_{false};
  bool abandoned_ = false;

  const std::shared_ptr<LoopLink> link_;
  port::BootTimer timer_;
  std::vector<Waiter> waiters_;
  std::set<std::string> others_;  // Channels.
  std::string unwritten_;         // Unsent requests about them.
  struct Asked {
    std::string channel;
    bool join;
  };
  std::deque<Asked> asked_;  // Questions about sharded channels, not answered yet.
  bool started_ = false;
  bool up_ = false;
  bool shut_ = false;
  bool was_confirmed_ = false;  // On an earlier connection.
  Backoff backoff_;
  BootInstant up_since_{};
  std::atomic<BootInstant> heard_{};
  BootInstant next_attempt_ = BootInstant::max();
  BootInstant next_ping_ = BootInstant::max();

  const int nudged_;
  base::BriefSpin spin_{kLooksForPush};  // The thread that listens has it.
  base::LocalMutex push_reader_mutex_;
  bool listening_ HOLDFAST_GUARDED_BY(push_reader_mutex_) = false;
  bool looked_ HOLDFAST_GUARDED_BY(push_reader_mutex_) = false;  // Into a new loan.
  std::shared_ptr<LentReader> loan_ HOLDFAST_GUARDED_BY(push_reader_mutex_);
};

void Subscriber::Impl::ensure_on_loop(BootInstant deadline, port::Done<void> done) {
  if (shut_) return done(closed_error());
  if (confirmed()) return done({});
  waiters_.push_back({deadline, std::move(done)});
  if (!std::exchange(started_, true)) link_->start();
  arm();
}

void Subscriber::Impl::want_on_loop(std::string channel, bool wanted) {
  if (shut_) return;
  if (!wanted) {
    if (others_.erase(channel) > 0 && confirmed()) ask_for(/*join=*/false, channel);
    return;
  }
  if (!std::exchange(started_, true)) link_->start();
  const auto [place, fresh] = others_.insert(std::move(channel));
  if (fresh && confirmed()) ask_for(/*join=*/true, *place);
}

void Subscriber::Impl::ask_for(bool join, const std::string& channel) {
  const bool sharded = events_.on_shard != nullptr;
  const std::string_view command = join ? "SSUBSCRIBE" : "SUNSUBSCRIBE";
  const std::string_view args[] = {sharded ? command : join ? "SUBSCRIBE" : "UNSUBSCRIBE", channel};
  append_command(unwritten_, args);
  if (sharded) asked_.push_back({channel, join});
  write_on();
}

// Each request about a sharded channel gets one answer, in order; the server also ends
// subscriptions by itself. Returns whether this was about a sharded channel.
bool Subscriber::Impl::on_shard_reply(const Reply& reply) {
  if (events_.on_shard == nullptr || !confirmed()) return false;
  if (reply.is_error()) {
    if (asked_.empty()) return false;
    const auto [channel, join] = std::move(asked_.front());
    asked_.pop_front();
    if (join) drop(channel, to_error(reply, where_ + ": cannot subscribe", /*reads_only=*/true));
    return true;
  }
  if (reply.kind != Reply::Kind::kArray || reply.items.size() < 2) return false;
  const std::string& kind = reply.items[0].text;
  const std::string& channel = reply.items[1].text;
  if (kind == "smessage" && reply.items.size() == 3) {
    events_.on_shard(channel, reply.items[2].text);
  } else if (kind == "ssubscribe") {
    if (!asked_.empty()) asked_.pop_front();
    if (events_.on_batch) events_.on_batch(channel);
  } else if (kind == "sunsubscribe") {
    const bool ours = !asked_.empty() && !asked_.front().join && asked_.front().channel == channel;
    if (ours) asked_.pop_front();
    if (!ours) drop(channel, {Errc::kUnavailable, where_ + ": the slot of the channel has moved"});
  } else {
    return false;
  }
  return true;
}

void Subscriber::Impl::drop(const std::string& channel, const Error& why) {
  if (others_.erase(channel) > 0 && events_.on_dropped) events_.on_dropped(channel, why);
}

void Subscriber::Impl::write_on() {
  if (unwritten_.empty() || !confirmed() || !link_->can_write()) return;
  std::string wire = std::exchange(unwritten_, {});
  link_->write(wire);
}

void Subscriber::Impl::on_up() {
  up_ = true;
  up_since_ = BootClock::now();
  heard_ = up_since_;
  next_ping_ = up_since_ + timing_.ping_every;
  std::string wire;
  const std::string_view args[] = {"SUBSCRIBE", channel_};
  append_command(wire, args);
  link_->write(wire);
  arm();
}

void Subscriber::Impl::on_reply(Reply reply) {
  heard_ = BootClock::now();
  if (on_shard_reply(reply)) return;
  if (reply.is_error()) {
    // This user may not subscribe to that other channel; its own channel still works.
    if (confirmed() && reply.text.starts_with("NOPERM")) return;
    return link_->fail(to_error(reply, where_ + ": cannot subscribe"));
  }
  // [subscribe channel count], [message channel payload], [pong ""].
  if (reply.kind != Reply::Kind::kArray || reply.items.size() < 2) return;
  const std::string& kind = reply.items[0].text;
  if (kind == "message" && reply.items.size() == 3) {
    if (events_.on_other && reply.items[1].text != channel_) {
      events_.on_other(reply.items[1].text);
    } else if (events_.on_message)
      events_.on_message(reply.items[2].text);
  } else if (kind == "subscribe" && !confirmed()) {
    on_confirmed();
  } else if (kind == "subscribe" && events_.on_batch) {
    events_.on_batch(reply.items[1].text);
  }
}

void Subscriber::Impl::on_confirmed() {
  confirmed_.store(true, std::memory_order_release);
  const bool again = std::exchange(was_confirmed_, true);
  end_waiters({});
  if (!shut_ && events_.on_subscribed) events_.on_subscribed(again);
  unwritten_.clear();
  asked_.clear();
  // The server of a new connection does not know the other channels yet.
  for (const std::string& channel : others_) ask_for(/*join=*/true, channel);
  lend();
}

void Subscriber::Impl::listen() {
  std::shared_ptr<LentReader> loan;
  bool look = false;
  bool ask = false;
  {
    const base::LocalLock lock(push_reader_mutex_);
    ask = !std::exchange(listening_, true);
    loan = loan_;
    look = !std::exchange(looked_, true);
  }
  if (ask) asio::post(io_, [self = shared_from_this()] { self->lend(); });
  if (!look && !await_news(loan == nullptr ? -1 : loan->descriptor())) return;
  if (loan == nullptr) return;
  std::vector<Reply> replies;
  const bool good = loan->read(replies);
  for (Reply& reply : replies) on_heard(std::move(reply), loan->located());
  if (good) return;
  {
    const base::LocalLock lock(push_reader_mutex_);
    if (loan_ == loan) loan_ = nullptr;
  }
  asio::post(io_, [self = shared_from_this(), loan] { self->link_->take_back(loan); });
}

// Waits until there is something to read, or a nudge. If the descriptor belongs to another file by
// now, the wake-up is needless and harmless.
bool Subscriber::Impl::await_news(int descriptor) {
  pollfd entries[] = {{nudged_, POLLIN, 0}, {descriptor, POLLIN, 0}};
  const bool came = spin_.until([&] { return ::poll(entries, 2, 0) != 0; });
  if (!came && ::poll(entries, 2, -1) < 0) return false;
  if (entries[0].revents != 0) {
    std::uint64_t count = 0;
    static_cast<void>(::read(nudged_, &count, sizeof count));
  }
  return entries[1].revents != 0;
}

// A push of an earlier primary is dropped. It would be a hint at most, and after the switch
// everybody asks anyway.
void Subscriber::Impl::on_heard(Reply reply, std::uint64_t located) {
  if (located != remote_->primary->generation()) return;
  heard_ = BootClock::now();
  const bool whole = reply.kind == Reply::Kind::kArray && reply.items.size() == 3;
  if (whole && reply.items[0].text == "message") {
    if (events_.on_message) events_.on_message(reply.items[2].text);
  } else {
    asio::post(io_, [self = shared_from_this(), reply = std::move(reply)]() mutable {
      if (!self->shut_ && self->up_) self->on_reply(std::move(reply));
    });
  }
}

void Subscriber::Impl::nudge() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(::write(nudged_, &one, sizeof one));
}

void Subscriber::Impl::rest() {
  {
    const base::LocalLock lock(push_reader_mutex_);
    listening_ = false;
  }
  asio::post(io_, [self = shared_from_this()] { self->take_back(); });
}

void Subscriber::Impl::lend() {
  if (shut_ || !confirmed()) return;
  {
    const base::LocalLock lock(push_reader_mutex_);
    if (!listening_ || loan_ != nullptr) return;
    loan_ = link_->lend();
    if (loan_ == nullptr) return;
    // Bytes may have arrived before the loan, so the thread reads once without polling.
    looked_ = false;
  }
  nudge();
}

// The link is down. A thread in poll() keeps the closed connection alive in the kernel, so it is
// woken.
void Subscriber::Impl::end_loan() {
  {
    const base::LocalLock lock(push_reader_mutex_);
    if (loan_ == nullptr) return;
    loan_ = nullptr;
  }
  nudge();
}

void Subscriber::Impl::take_back() {
  std::shared_ptr<LentReader> loan;
  {
    const base::LocalLock lock(push_reader_mutex_);
    if (listening_) return;
    loan = std::exchange(loan_, nullptr);
  }
  link_->take_back(loan);
}

void Subscriber::Impl::on_down(Error why) {
  if (shut_) return;
  const bool was_up = std::exchange(up_, false);
  const bool was_confirmed = confirmed_.exchange(false);
  end_loan();
  const BootInstant now = BootClock::now();
  const bool was_good = was_confirmed && now - up_since_ >= Backoff::kGoodLife;
  next_attempt_ = now + backoff_.after_loss(was_good, base::random_128().low);
  next_ping_ = BootInstant::max();
  if (was_confirmed && events_.on_lost) events_.on_lost(why);
  // After a lost connection the waiters still get the next attempt. A failed attempt or a refusal
  // is reported to them.
  if (!was_up || why.code() != Errc::kUnavailable) end_waiters(std::move(why));
  arm();
}

void Subscriber::Impl::on_moved() {
  if (next_attempt_ == BootInstant::max()) return;
  backoff_ = Backoff();
  next_attempt_ = BootClock::now();
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
  timer_.arm_at(at, [this] { on_timer(); });
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
  const BootInstant heard = heard_;
  if (now - heard >= timing_.dead_after) {
    next_ping_ = BootInstant::max();
    return link_->fail({Errc::kUnavailable, where_ + ": the server has been silent for too long"});
  }
  if (now - heard < timing_.ping_every || !link_->can_write()) return;
  std::string wire = Handshake::ping();
  link_->write(wire);
}

void Subscriber::Impl::shut() {
  if (std::exchange(shut_, true)) return;
  confirmed_ = false;
  link_->stop();
  end_loan();
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

port::PushReader& Subscriber::push_reader() noexcept { return *impl_; }
void Subscriber::join(std::string channel) { impl_->want(std::move(channel), true); }
void Subscriber::leave(std::string channel) { impl_->want(std::move(channel), false); }
bool Subscriber::confirmed() const noexcept { return impl_->confirmed(); }
void Subscriber::close() { impl_->close(); }

void Subscriber::abandon() noexcept {
  impl_->abandon();
  base::abandon(impl_);
}

}  // namespace holdfast::stores::redis
