#include "src/stores/redis/transport/pipeline.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/abandon.h"
#include "src/base/random.h"
#include "src/port/boot_timer.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/transport/backoff.h"
#include "src/stores/redis/transport/batching.h"
#include "src/stores/redis/transport/loop_link.h"
#include "src/stores/redis/transport/operation.h"
#include "src/stores/redis/transport/turns.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;
using base::BootInstant;

// The most bytes of one write; later requests gather meanwhile.
constexpr std::size_t kWriteSize = 256 * 1024;
// How long the loop stays awake for an answer.
constexpr std::chrono::microseconds kAwake{200};
// After so many batches in a row that were of no use, a connection makes no more.
constexpr int kMostVainBatches = 3;
// Deadlines closer together than this share one sweep.
constexpr std::chrono::milliseconds kSweepGrain{1};

Error closed_error(const std::string& where) {
  return {Errc::kClosed, where + ": the client is closed: connect again"};
}

}  // namespace

// Everything except send(), close() and the atomics runs on the loop.
//
// An operation is in one of: the inbox; `waiting_` (for the connection, or for the write before);
// `sent_` (given to the link to write, its answer outstanding, in the order of the answers).
class Pipeline::Impl final : public LinkOwner, public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, RemotePtr remote, PipelineOptions options)
      : io_(io),
        where_(remote->address.display()),
        patience_(remote->address.connect_timeout),
        options_(std::move(options)),
        link_(std::make_shared<LoopLink>(io, std::move(remote), *this, options_.limits)),
        timer_(io) {}

  void send(Command command, BootInstant deadline, port::Done<Reply> done);
  void close();
  void abandon() noexcept;
  bool connected() const noexcept { return connected_.load(std::memory_order_relaxed); }
  std::size_t under_way() const noexcept { return under_way_.load(std::memory_order_relaxed); }
  const std::string& missing() const noexcept { return missing_; }
  Counts counts() const noexcept;

  void on_up() override;
  void on_reply(Reply reply) override;
  void on_written() override { flush(); }
  void on_down(Error why) override;
  void on_moved() override;

 private:
  void take_fresh();
  void look_into_inbox();
  void note_answer(const Operation& first);
  bool holds() const noexcept { return turns_.hold(sent_.size(), waiting_.size()); }
  void stay_awake();
  void drain();
  void flush();
  void leave_when_answered();
  void expire(OperationList& late);
  void shut();
  void on_timer();
  void arm();
  void sweep(BootInstant now);
  BootInstant sweep_sent(BootInstant now);
  std::unique_ptr<Operation> part_from_place(Operation& late);
  std::size_t put_out(OperationList& taken, BootInstant now);
  void answer(std::unique_ptr<Operation> operation, Reply reply);
  void answer_each(OperationList& asked, std::size_t number, Reply reply);
  void answer_parts(OperationList& asked, std::vector<Reply>& replies);
  void send_again_alone(OperationList& operations);
  void ask_replicas(BootInstant now);
  void on_confirmed(const Result<Reply>& wait);
  void complete(std::unique_ptr<Operation> operation, Result<Reply> result);
  void complete_answered();
  void refuse(port::Done<Reply> done, Error why);
  void fail_all(OperationList& operations, const Error& why);
  Error unanswered(const Operation& operation, const std::string& why) const;

  asio::io_context& io_;
  const std::string where_;
  const std::chrono::milliseconds patience_;
  const PipelineOptions options_;

  Inbox inbox_;
  std::atomic<std::size_t> queued_bytes_{0};
  std::atomic<std::size_t> under_way_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> connected_{false};
  std::atomic<bool> busy_{false};      // Answers are outstanding, so the loop need not be woken.
  std::atomic<std::size_t> fresh_{0};  // Roughly the number in the inbox.
  std::atomic<std::uint64_t> writes_{0};
  std::atomic<std::uint64_t> commands_{0};
  std::atomic<std::uint64_t> connections_{0};
  bool abandoned_ = false;

  const std::shared_ptr<LoopLink> link_;
  port::BootTimer timer_;
  OperationList waiting_;
  OperationList sent_;
  // With a confirmation: answered, while the replicas have not.
  struct Answered {
    std::unique_ptr<Operation> operation;
    Reply reply;
  };
  std::vector<Answered> unconfirmed_;
  std::vector<Answered> answered_;  // To be completed after the next write.
  Result<Reply> small_write_ = Error(Errc::kUnavailable, "");
  std::string missing_;
  std::string out_;
  std::uint64_t given_to_link_ = 0;  // Bytes on this connection.
  bool leaving_ = false;             // No more requests go out on this connection.
  bool joins_ = true;                // Whether requests are batched on this connection.
  int vain_batches_ = 0;             // In a row, and no part of them was answered.
  Turns turns_;
  BootInstant awake_until_{};
  bool awake_ = false;  // stay_awake() is posted.
  bool started_ = false;
  bool shut_ = false;
  Backoff backoff_;
  BootInstant up_since_{};
  BootInstant next_attempt_ = BootInstant::max();
  BootInstant next_sweep_ = BootInstant::max();  // Not later than any operation's deadline.
  // Boot time of the timer; senders read it.
  std::atomic<std::int64_t> armed_ = BootInstant::max().time_since_epoch().count();
  std::optional<Error> last_failure_;
};

void Pipeline::Impl::send(Command command, BootInstant deadline, port::Done<Reply> done) {
  auto operation = std::make_unique<Operation>();
  operation->command = std::move(command);
  operation->deadline = deadline;
  operation->done = std::move(done);
  const std::size_t cost = operation->cost();
  // Counts first and subtracts on refusal, so that all threads together stay within the limit.
  if (queued_bytes_.fetch_add(cost, std::memory_order_relaxed) + cost > options_.max_queued_bytes) {
    queued_bytes_.fetch_sub(cost, std::memory_order_relaxed);
    return refuse(
        std::move(operation->done),
        {Errc::kQueueFull, where_ + ": requests for " + std::to_string(options_.max_queued_bytes) +
                               " bytes are under way already: send fewer at a time"});
  }
  under_way_.fetch_add(1, std::memory_order_relaxed);
  const Inbox::Pushed pushed = inbox_.push(operation);
  if (pushed != Inbox::Pushed::kClosed) {
    const bool enough = fresh_.fetch_add(1) + 1 == Turns::kWorthAWrite;
    // A busy loop looks into the inbox by itself, with its next answer or when its timer fires.
    const bool wake = busy_ ? enough || deadline.time_since_epoch().count() < armed_
                            : pushed == Inbox::Pushed::kFirst;
    if (wake) asio::post(io_, [self = shared_from_this()] { self->drain(); });
    return;
  }
  under_way_.fetch_sub(1, std::memory_order_relaxed);
  queued_bytes_.fetch_sub(cost, std::memory_order_relaxed);
  refuse(std::move(operation->done), closed_error(where_));
}

void Pipeline::Impl::refuse(port::Done<Reply> done, Error why) {
  asio::post(io_, [done = std::move(done), why = std::move(why)] { done(why); });
}

// Reads the senders' counter first: every operation counted there is in the inbox already.
void Pipeline::Impl::take_fresh() {
  OperationList fresh;
  fresh_.exchange(0);
  inbox_.take_all(fresh);
  for (const Operation* each = fresh.front(); each != nullptr; each = each->next) {
    next_sweep_ = std::min(next_sweep_, each->deadline);
  }
  waiting_.append(fresh);
}

void Pipeline::Impl::drain() {
  if (shut_) return;
  take_fresh();
  if (!std::exchange(started_, true)) link_->start();
  flush();
  arm();
}

void Pipeline::Impl::flush() {
  if (waiting_.empty() || !link_->can_write() || leaving_) return;
  const bool confirms = options_.confirmation.wanted();
  if (confirms && !sent_.empty()) return;
  if (holds()) return;
  const BootInstant now = BootClock::now();
  OperationList late;
  while (link_->can_write() && !waiting_.empty()) {
    out_.clear();
    std::uint64_t count = 0;
    while (!waiting_.empty() && out_.size() < kWriteSize) {
      const std::size_t room = turns_.room(count, waiting_.size());
      if (room == 0) break;
      OperationList taken;
      take_next(waiting_, now, joins_, room, taken, late);
      if (taken.empty()) continue;
      count += put_out(taken, now);
    }
    if (out_.empty()) break;
    if (confirms) ask_replicas(now);
    given_to_link_ += out_.size();
    commands_.fetch_add(count, std::memory_order_relaxed);
    link_->write(out_);
    writes_.store(link_->writes(), std::memory_order_relaxed);
    if (confirms || holds()) break;
  }
  // From now on senders need not wake the loop, because an answer will.
  if (holds()) busy_ = true;
  awake_until_ = now + kAwake;
  stay_awake();
  expire(late);
}

// Rather than sleep until the next answer, which would cost this processor and the server's a
// wake-up each (docs/design/0058-brief-spin.md). Each turn of the loop looks at the socket.
void Pipeline::Impl::stay_awake() {
  if (awake_ || shut_ || sent_.empty() || !turns_.due_soon()) return;
  if (BootClock::now() > awake_until_) return;
  awake_ = true;
  asio::post(io_, [self = shared_from_this()] {
    ::sched_yield();
    self->awake_ = false;
    self->stay_awake();
  });
}

void Pipeline::Impl::note_answer(const Operation& first) {
  if (options_.confirmation.wanted()) return;
  turns_.on_answer(BootClock::now() - first.written, first.ahead + first.joined,
                   sent_.size() + waiting_.size() + fresh_);
}

// Writes the operations as one request; returns their number.
std::size_t Pipeline::Impl::put_out(OperationList& taken, BootInstant now) {
  append_request(out_, taken);
  const std::size_t number = taken.size();
  for (Operation* each = taken.front(); each != nullptr; each = each->next) {
    // A part has left when the last byte of the whole request has.
    each->end = given_to_link_ + out_.size();
    each->written = now;
    each->prefix_due = each->command.has_prefix;
  }
  taken.front()->joined = number;
  taken.front()->ahead = sent_.size();
  sent_.append(taken);
  return number;
}

// About all that was just put out. On another connection the answer would say nothing of it.
void Pipeline::Impl::ask_replicas(BootInstant now) {
  BootInstant first = BootInstant::max();
  for (const Operation* each = sent_.front(); each != nullptr; each = each->next) {
    first = std::min(first, each->deadline);
  }
  options_.confirmation.append(out_, first);
  const auto expect = [&](port::Done<Reply> done) {
    auto operation = std::make_unique<Operation>();
    operation->written = now;
    operation->done = std::move(done);
    operation->end = given_to_link_ + out_.size();
    operation->confirms = true;
    under_way_.fetch_add(1, std::memory_order_relaxed);
    queued_bytes_.fetch_add(operation->cost(), std::memory_order_relaxed);
    sent_.push(std::move(operation));
  };
  expect([this](Result<Reply> reply) { small_write_ = std::move(reply); });
  expect([this](const Result<Reply>& reply) { on_confirmed(reply); });
}

void Pipeline::Impl::on_confirmed(const Result<Reply>& wait) {
  std::vector<Answered> answered;
  answered.swap(unconfirmed_);
  const Confirmation& asked = options_.confirmation;
  if (wait && !(small_write_ && asked.given(*small_write_, *wait))) {
    missing_ = small_write_ ? asked.missing(*small_write_, *wait) : small_write_.error().message();
  }
  for (Answered& each : answered) {
    complete(std::move(each.operation), wait ? std::move(each.reply) : Result<Reply>(wait.error()));
  }
  missing_.clear();
}

void Pipeline::Impl::on_up() {
  up_since_ = BootClock::now();
  given_to_link_ = 0;
  leaving_ = false;
  joins_ = true;
  vain_batches_ = 0;
  turns_.on_new_connection();
  last_failure_.reset();
  connections_.fetch_add(1, std::memory_order_relaxed);
  connected_ = true;
  flush();
}

void Pipeline::Impl::on_reply(Reply reply) {
  if (sent_.empty()) {
    link_->fail({Errc::kUnavailable, where_ + ": the server sent an answer without a request"});
    return;
  }
  const std::size_t number = sent_.front()->joined;
  if (std::exchange(sent_.front()->prefix_due, false)) return;
  note_answer(*sent_.front());
  if (number == 1) {
    answer(sent_.pop(), std::move(reply));
  } else {
    OperationList asked;
    for (std::size_t i = 0; i < number; ++i) asked.push(sent_.pop());
    answer_each(asked, number, std::move(reply));
  }
  look_into_inbox();
  if (leaving_) {
    leave_when_answered();
  } else {
    flush();
  }
  complete_answered();
}

// After the write, so that the server has work while the callers have theirs.
void Pipeline::Impl::complete_answered() {
  for (Answered& each : answered_) complete(std::move(each.operation), std::move(each.reply));
  answered_.clear();
}

// A busy loop is not woken for new operations, so it looks by itself. When it stops being busy it
// looks once more, because a sender may have seen it busy until then.
void Pipeline::Impl::look_into_inbox() {
  if (!busy_) return;
  if (!holds()) busy_ = false;
  take_fresh();
  arm();
}

void Pipeline::Impl::answer(std::unique_ptr<Operation> operation, Reply reply) {
  leaving_ = leaving_ || is_demotion(reply);
  if (operation->confirms) return complete(std::move(operation), std::move(reply));
  (options_.confirmation.wanted() ? unconfirmed_ : answered_)
      .push_back({std::move(operation), std::move(reply)});
}

// Answers the operations of one batch.
void Pipeline::Impl::answer_each(OperationList& asked, std::size_t number, Reply reply) {
  if (reply.kind == Reply::Kind::kArray && reply.items.size() == number) {
    answer_parts(asked, reply.items);
  } else if (concerns_each(reply)) {
    while (!asked.empty()) answer(asked.pop(), reply);
  } else {
    // A node of a cluster takes only locks of one slot together, which is rare: stop batching.
    joins_ = joins_ && reply.error_word() != "CROSSSLOT";
    // The reason may be a single part.
    send_again_alone(asked);
  }
}

void Pipeline::Impl::answer_parts(OperationList& asked, std::vector<Reply>& replies) {
  OperationList again;
  for (Reply& own : replies) {
    auto operation = asked.pop();
    if (asks_to_go_alone(own)) {
      again.push(std::move(operation));
    } else {
      answer(std::move(operation), std::move(own));
    }
  }
  // Where a proxy keeps scripts from keys that they do not declare, batches cost only time.
  vain_batches_ = again.size() == replies.size() ? vain_batches_ + 1 : 0;
  joins_ = joins_ && vain_batches_ < kMostVainBatches;
  send_again_alone(again);
}

// Ahead of the waiting requests.
void Pipeline::Impl::send_again_alone(OperationList& operations) {
  for (Operation* each = operations.front(); each != nullptr; each = each->next) each->alone = true;
  operations.append(waiting_);
  waiting_.append(operations);
}

// The server has become a replica. Its answers under way still count; after them the name is looked
// up again.
void Pipeline::Impl::leave_when_answered() {
  if (!sent_.empty() || shut_) return;
  link_->fail({Errc::kUnavailable, where_ + ": the server has become a replica"});
}

void Pipeline::Impl::on_down(Error why) {
  if (shut_) return;
  const bool was_up = connected_.exchange(false);
  const BootInstant now = BootClock::now();
  const bool was_good = was_up && now - up_since_ >= Backoff::kGoodLife;
  next_attempt_ = now + backoff_.after_loss(was_good, base::random_128().low);
  last_failure_ = why;

  OperationList answered_never;
  OperationList kept;
  // A request whose last byte the kernel never took cannot be applied, so it is sent again.
  while (auto operation = sent_.pop()) {
    const bool over = operation->confirms || operation->end <= link_->handed_over();
    (over ? answered_never : kept).push(std::move(operation));
  }
  // Requests of the old connection go first, because their order counts.
  kept.append(waiting_);
  waiting_.append(kept);
  look_into_inbox();
  // The unreadable answer belongs to the oldest operation.
  if (why.code() == Errc::kCorruptState) {
    if (auto operation = answered_never.pop()) complete(std::move(operation), Error(why));
  }
  while (auto operation = answered_never.pop()) {
    Error error = unanswered(*operation, why.message());
    complete(std::move(operation), std::move(error));
  }
  // After the loss of a good connection the waiting operations still get the next attempt.
  if (!was_up) {
    OperationList failed;
    failed.append(waiting_);
    fail_all(failed, why);
  }
  arm();
}

void Pipeline::Impl::on_moved() {
  if (next_attempt_ == BootInstant::max()) return;
  backoff_ = Backoff();
  next_attempt_ = BootClock::now();
  arm();
}

Error Pipeline::Impl::unanswered(const Operation& operation, const std::string& why) const {
  if (operation.command.reads_only) return {Errc::kUnavailable, why};
  return {Errc::kOutcomeUnknown, why + "; a request was sent and may have been applied"};
}

void Pipeline::Impl::fail_all(OperationList& operations, const Error& why) {
  while (auto operation = operations.pop()) complete(std::move(operation), why);
}

void Pipeline::Impl::complete(std::unique_ptr<Operation> operation, Result<Reply> result) {
  queued_bytes_.fetch_sub(operation->cost(), std::memory_order_relaxed);
  if (operation->done == nullptr) return;
  under_way_.fetch_sub(1, std::memory_order_relaxed);
  operation->done(std::move(result));
}

void Pipeline::Impl::arm() {
  if (shut_) return;
  const BootInstant at = std::min(next_attempt_, next_sweep_);
  // The timer only moves to an earlier instant. If it fires too early, it finds nothing to do.
  if (at.time_since_epoch().count() >= armed_) return;
  armed_ = at.time_since_epoch().count();
  timer_.arm_at(at, [this] { on_timer(); });
}

void Pipeline::Impl::on_timer() {
  if (shut_) return;
  armed_ = BootInstant::max().time_since_epoch().count();
  if (busy_) take_fresh();
  const BootInstant now = BootClock::now();
  if (next_attempt_ <= now) {
    next_attempt_ = BootInstant::max();
    link_->start();
  }
  if (next_sweep_ <= now) sweep(now);
  arm();
}

void Pipeline::Impl::sweep(BootInstant now) {
  OperationList late;
  OperationList kept;
  BootInstant next = BootInstant::max();
  while (auto operation = waiting_.pop()) {
    const bool is_late = operation->deadline <= now;
    if (!is_late) next = std::min(next, operation->deadline);
    (is_late ? late : kept).push(std::move(operation));
  }
  waiting_.append(kept);
  next = std::min(next, sweep_sent(now));
  next_sweep_ = next == BootInstant::max() ? next : std::max(next, now + kSweepGrain);
  expire(late);
}

// One caller's short deadline must not make the requests of others unknown. So a late request ends
// alone while the server may only be slow. Returns when to look again.
BootInstant Pipeline::Impl::sweep_sent(BootInstant now) {
  BootInstant next = BootInstant::max();
  BootClock::duration longest{};
  bool has_late = false;
  bool has_partly_sent = false;
  std::vector<Operation*> late;
  const auto look = [&](Operation& each) {
    if (each.confirms) return;
    longest = std::max(longest, each.deadline - each.written);
    const bool is_late = each.deadline <= now;
    has_late = has_late || is_late;
    has_partly_sent = has_partly_sent || (is_late && each.end > link_->handed_over());
    if (!is_late) next = std::min(next, each.deadline);
    if (is_late && each.done != nullptr) late.push_back(&each);
  };
  for (Operation* each = sent_.front(); each != nullptr; each = each->next) look(*each);
  for (const Answered& each : unconfirmed_) look(*each.operation);
  if (!has_late) return next;
  const Error why(Errc::kUnavailable, link_->where() + ": no answer within the deadline");
  // By then the oldest one has waited as long as any would, or as long as a log-in may take.
  const BootInstant dead_at =
      sent_.front()->written + std::min<BootClock::duration>(longest, patience_);
  if (has_partly_sent || dead_at <= now) {
    link_->fail(why);
    return now;
  }
  OperationList told;
  for (Operation* each : late) told.push(part_from_place(*each));
  while (auto operation = told.pop()) {
    Error error = unanswered(*operation, why.message());
    complete(std::move(operation), std::move(error));
  }
  return std::min(next, dead_at);
}

// The late operation stays in its place and takes the answer.
std::unique_ptr<Operation> Pipeline::Impl::part_from_place(Operation& late) {
  auto told = std::make_unique<Operation>();
  told->command = std::exchange(late.command, {});
  told->done = std::exchange(late.done, nullptr);
  queued_bytes_.fetch_add(late.cost(), std::memory_order_relaxed);
  return told;
}

void Pipeline::Impl::expire(OperationList& late) {
  if (late.empty()) return;
  const std::string why = last_failure_ ? last_failure_->message() : "the connection is busy";
  fail_all(late,
           {Errc::kUnavailable, where_ + ": not sent within the deadline (" + why + "): retry"});
}

void Pipeline::Impl::shut() {
  if (std::exchange(shut_, true)) return;
  connected_ = false;
  link_->stop();
  timer_.stop();
  OperationList all;
  all.append(sent_);
  all.append(waiting_);
  all.append(inbox_.close());
  fail_all(all, closed_error(where_));
}

void Pipeline::Impl::close() {
  if (abandoned_ || closed_.exchange(true)) return;
  run_on_loop(io_, [self = shared_from_this()] { self->shut(); });
}

void Pipeline::Impl::abandon() noexcept {
  abandoned_ = true;
  link_->abandon();
  timer_.abandon();
}

Pipeline::Counts Pipeline::Impl::counts() const noexcept {
  return {writes_.load(std::memory_order_relaxed), commands_.load(std::memory_order_relaxed),
          connections_.load(std::memory_order_relaxed)};
}

Pipeline::Pipeline(asio::io_context& io, RemotePtr remote, PipelineOptions options)
    : impl_(std::make_shared<Impl>(io, std::move(remote), std::move(options))) {}

Pipeline::~Pipeline() {
  if (impl_ != nullptr) impl_->close();
}

void Pipeline::send(Command command, BootInstant deadline, port::Done<Reply> done) {
  impl_->send(std::move(command), deadline, std::move(done));
}

const std::string& Pipeline::missing() const noexcept { return impl_->missing(); }
bool Pipeline::connected() const noexcept { return impl_->connected(); }

std::size_t Pipeline::under_way() const noexcept { return impl_->under_way(); }
Pipeline::Counts Pipeline::counts() const noexcept { return impl_->counts(); }
void Pipeline::close() { impl_->close(); }

void Pipeline::abandon() noexcept {
  impl_->abandon();
  // Asio's part must not be destroyed, because the parent uses the same epoll instance.
  base::abandon(impl_);
}

}  // namespace holdfast::stores::redis
