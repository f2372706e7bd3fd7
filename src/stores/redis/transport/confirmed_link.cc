#include "src/stores/redis/transport/confirmed_link.h"

#include <atomic>
#include <deque>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/abandon.h"
#include "src/base/random.h"
#include "src/port/boot_timer.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/transport/backoff.h"
#include "src/stores/redis/transport/loop_link.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;
using base::BootInstant;

constexpr std::size_t kMostInOne = 256;
constexpr std::size_t kMostBytes = 256 * 1024;

}  // namespace

// Everything except send() and close() runs on the loop.
class ConfirmedLink::Impl final : public LinkOwner, public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, RemotePtr remote, Confirmation confirmation)
      : io_(io),
        where_(remote->address.display()),
        confirmation_(std::move(confirmation)),
        link_(std::make_shared<LoopLink>(io, std::move(remote), *this, ReplyLimits{})),
        timer_(io) {}

  struct Request {
    std::string wire;
    BootInstant deadline;
    port::Done<ConfirmedReply> done;
    std::uint64_t end = 0;  // Position of its last byte in the connection's output.
  };

  void take(Request request) {
    if (shut_) return request.done(closed_error());
    waiting_.push_back(std::move(request));
    if (!std::exchange(started_, true)) link_->start();
    pump();
    arm();
  }
  void post(Request request) {
    asio::post(io_, [self = shared_from_this(), request = std::move(request)]() mutable {
      self->take(std::move(request));
    });
  }
  void close() {
    if (abandoned_ || closed_.exchange(true)) return;
    run_on_loop(io_, [self = shared_from_this()] { self->shut(); });
  }
  void abandon() noexcept {
    abandoned_ = true;
    link_->abandon();
    timer_.abandon();
  }

  void on_up() override {
    up_since_ = BootClock::now();
    up_ = true;
    given_to_link_ = 0;
    pump();
  }
  void on_written() override { pump(); }
  void on_reply(Reply reply) override;
  void on_down(Error why) override;
  void on_moved() override {
    if (next_attempt_ == BootInstant::max()) return;
    backoff_ = Backoff();
    next_attempt_ = BootClock::now();
    arm();
  }

 private:
  void pump();
  void complete_batch();
  void expire(BootInstant now);
  void on_timer();
  void arm();
  void shut();
  Error closed_error() const {
    return {Errc::kClosed, where_ + ": the client is closed: connect again"};
  }

  asio::io_context& io_;
  const std::string where_;
  const Confirmation confirmation_;
  const std::shared_ptr<LoopLink> link_;
  port::BootTimer timer_;
  std::atomic<bool> closed_{false};
  bool abandoned_ = false;
  std::deque<Request> waiting_;
  std::vector<Request> batch_;  // Written, and not answered.
  std::vector<Reply> replies_;  // The batch's replies that have come.
  std::uint64_t given_to_link_ = 0;
  bool started_ = false;
  bool up_ = false;
  bool shut_ = false;
  Backoff backoff_;
  BootInstant up_since_{};
  BootInstant next_attempt_ = BootInstant::max();
};

void ConfirmedLink::Impl::pump() {
  if (shut_ || !batch_.empty() || !link_->can_write()) return;
  expire(BootClock::now());
  if (waiting_.empty()) return;
  std::string out;
  BootInstant first = BootInstant::max();
  while (!waiting_.empty() && batch_.size() < kMostInOne && out.size() < kMostBytes) {
    Request request = std::move(waiting_.front());
    waiting_.pop_front();
    out += request.wire;
    request.end = given_to_link_ + out.size();
    first = std::min(first, request.deadline);
    batch_.push_back(std::move(request));
  }
  confirmation_.append(out, first);
  given_to_link_ += out.size();
  link_->write(out);
}

void ConfirmedLink::Impl::on_reply(Reply reply) {
  if (batch_.empty()) {
    link_->fail({Errc::kUnavailable, where_ + ": the server sent an answer without a request"});
    return;
  }
  replies_.push_back(std::move(reply));
  if (replies_.size() == batch_.size() + Confirmation::kReplies) complete_batch();
}

void ConfirmedLink::Impl::complete_batch() {
  std::vector<Request> batch;
  std::vector<Reply> replies;
  batch.swap(batch_);
  replies.swap(replies_);
  const Reply& write = replies[batch.size()];
  const Reply& wait = replies[batch.size() + 1];
  const bool confirmed = confirmation_.given(write, wait);
  const std::string missing = confirmed ? "" : confirmation_.missing(write, wait);
  bool demoted = is_demotion(write);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    demoted = demoted || is_demotion(replies[i]);
    batch[i].done(ConfirmedReply{std::move(replies[i]), confirmed, missing});
  }
  if (demoted) {
    link_->fail({Errc::kUnavailable, where_ + ": the server has become a replica"});
    return;
  }
  pump();
  arm();
}

void ConfirmedLink::Impl::on_down(Error why) {
  if (shut_) return;
  const bool was_up = std::exchange(up_, false);
  const BootInstant now = BootClock::now();
  const bool was_good = was_up && now - up_since_ >= Backoff::kGoodLife;
  next_attempt_ = now + backoff_.after_loss(was_good, base::random_128().low);
  std::vector<Request> batch;
  batch.swap(batch_);
  replies_.clear();
  // A request whose last byte the kernel never took cannot be applied, so it is sent again.
  while (!batch.empty() && batch.back().end > link_->handed_over()) {
    waiting_.push_front(std::move(batch.back()));
    batch.pop_back();
  }
  for (Request& each : batch) {
    each.done(Error(Errc::kOutcomeUnknown,
                    why.message() + "; a request was sent and may have been applied"));
  }
  if (!was_up) {
    std::deque<Request> failed;
    failed.swap(waiting_);
    for (Request& each : failed) each.done(why);
  }
  arm();
}

void ConfirmedLink::Impl::expire(BootInstant now) {
  std::deque<Request> kept;
  std::vector<Request> late;
  for (Request& each : waiting_) {
    if (each.deadline > now)
      kept.push_back(std::move(each));
    else
      late.push_back(std::move(each));
  }
  waiting_.swap(kept);
  for (Request& each : late) {
    each.done(Error(Errc::kUnavailable, where_ + ": not sent within the deadline: retry"));
  }
}

void ConfirmedLink::Impl::arm() {
  if (shut_) return;
  BootInstant at = next_attempt_;
  for (const Request& each : waiting_) at = std::min(at, each.deadline);
  for (const Request& each : batch_) at = std::min(at, each.deadline);
  timer_.arm_at(at, [this] { on_timer(); });
}

void ConfirmedLink::Impl::on_timer() {
  if (shut_) return;
  const BootInstant now = BootClock::now();
  if (next_attempt_ <= now) {
    next_attempt_ = BootInstant::max();
    link_->start();
  }
  expire(now);
  for (const Request& each : batch_) {
    if (each.deadline > now) continue;
    // on_down() follows, and arms the timer. A late answer must not be taken for another's.
    return link_->fail({Errc::kUnavailable, where_ + ": no answer within the deadline"});
  }
  arm();
}

void ConfirmedLink::Impl::shut() {
  if (std::exchange(shut_, true)) return;
  link_->stop();
  timer_.stop();
  for (Request& each : batch_) each.done(closed_error());
  for (Request& each : waiting_) each.done(closed_error());
  batch_.clear();
  waiting_.clear();
}

ConfirmedLink::ConfirmedLink(asio::io_context& io, RemotePtr remote, Confirmation confirmation)
    : impl_(std::make_shared<Impl>(io, std::move(remote), std::move(confirmation))) {}

ConfirmedLink::~ConfirmedLink() {
  if (impl_ != nullptr) impl_->close();
}

void ConfirmedLink::send(std::string wire, BootInstant deadline,
                         port::Done<ConfirmedReply> done) {
  impl_->post({std::move(wire), deadline, std::move(done)});
}

void ConfirmedLink::close() { impl_->close(); }

void ConfirmedLink::abandon() noexcept {
  impl_->abandon();
  base::abandon(impl_);
}

}  // namespace holdfast::stores::redis
