#include "src/sql/link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "src/base/thread.h"

namespace holdfast::sql {
namespace {

using base::BootClock;
using base::BootInstant;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{2000};
constexpr int kLongestWait = 1000;  // Milliseconds of one poll().

}  // namespace

Link::Link(Settings settings, Hooks hooks)
    : settings_(std::move(settings)),
      hooks_(std::move(hooks)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Link::~Link() {
  close();
  ::close(wake_);
}

void Link::start() {
  thread_ = base::start_thread(settings_.thread_name, [this] { run(); });
}

void Link::post(port::Task task) {
  const base::LocalLock lock(mutex_);
  if (closing_) return;
  tasks_.push_back(std::move(task));
  if (tasks_.size() == 1) ::eventfd_write(wake_, 1);
}

void Link::close() {
  {
    const base::LocalLock lock(mutex_);
    if (closing_) return;
    closing_ = true;
    ::eventfd_write(wake_, 1);
  }
  if (thread_.joinable()) thread_.join();
  connection_.reset();
}

void Link::run() {
  while (take_tasks()) {
    run_timers();
    check_deadlines();
    const bool wanted = settings_.keep || !queued_.empty();
    if (state_ == State::kDown && wanted && BootClock::now() >= next_try_) begin_connect();
    if (state_ == State::kUp) write_queued();
    wait();
  }
}

// False: the link closes.
bool Link::take_tasks() {
  std::vector<port::Task> tasks;
  bool closing = false;
  {
    const base::LocalLock lock(mutex_);
    tasks.swap(tasks_);
    closing = closing_;
  }
  for (port::Task& task : tasks) task();
  return !closing;
}

void Link::run_timers() {
  const BootInstant now = BootClock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const port::Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
}

// When the connection counts as dead, unless the server says something before.
BootInstant Link::silence_ends() const {
  if (sent_.empty()) return BootInstant::max();
  return std::max(heard_, sent_.front().at) +
         settings_.longest_silence.value_or(settings_.connect_timeout);
}

void Link::check_deadlines() {
  const BootInstant now = BootClock::now();
  bool silent = false;
  for (Sent& sent : sent_) {
    if (sent.answered || sent.deadline > now) continue;
    sent.answered = true;
    silent = silent || heard_ < sent.at;
    const auto done = std::move(sent.done);
    done({Fate::kUnknown, nullptr, {}, "no answer in time"});
  }
  if (silent || silence_ends() <= now) drop("the server does not answer");
  std::vector<Statement> late;
  for (Statement& statement : queued_) {
    if (statement.deadline <= now) late.push_back(std::move(statement));
  }
  std::erase_if(queued_, [](const Statement& statement) { return !statement.done; });
  for (Statement& statement : late) {
    statement.done({Fate::kNotSent, nullptr, {}, "no connection in time"});
  }
}

timespec Link::wait_time(BootInstant now) const {
  BootInstant until = std::min(now + milliseconds(kLongestWait), silence_ends());
  if (!timers_.empty()) until = std::min(until, timers_.begin()->first);
  for (const Sent& sent : sent_) {
    if (!sent.answered) until = std::min(until, sent.deadline);
  }
  for (const Statement& statement : queued_) until = std::min(until, statement.deadline);
  if (state_ == State::kConnecting) until = std::min(until, connect_by_);
  if (state_ == State::kDown && (settings_.keep || !queued_.empty())) {
    until = std::min(until, next_try_);
  }
  const auto left = std::max<BootClock::duration>(until - now, BootClock::duration::zero());
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(whole.count()),
          static_cast<long>(std::chrono::nanoseconds(left - whole).count())};
}

void Link::wait() {
  pollfd sockets[2] = {{wake_, POLLIN, 0}, {-1, 0, 0}};
  if (connection_ != nullptr) {
    const Connection::Awaited awaited = connection_->awaits();
    sockets[1] = {awaited.socket, awaited.events, 0};
  }
  const timespec time = wait_time(BootClock::now());
  ::ppoll(sockets, 2, &time, nullptr);
  if (sockets[0].revents != 0) {
    eventfd_t ignored = 0;
    ::eventfd_read(wake_, &ignored);
  }
  const short events = sockets[1].revents;
  if (state_ == State::kConnecting) {
    if (events != 0) {
      connecting(connection_->proceed(events));
    } else if (BootClock::now() >= connect_by_) {
      connect_failed({}, "no connection within connect_timeout");
    }
  } else if (state_ == State::kUp && events != 0) {
    if ((events & POLLIN) != 0) heard_ = BootClock::now();
    const bool good = connection_->receive(
        events, {[this](Answer answer) { answered(std::move(answer)); }, hooks_.on_notify});
    if (!good) drop(connection_->error());
  }
}

void Link::begin_connect() {
  connect_by_ = BootClock::now() + settings_.connect_timeout;
  connection_ = settings_.connect();
  state_ = State::kConnecting;
  connecting(connection_->start());
}

void Link::connecting(Connection::Progress progress) {
  if (progress == Connection::Progress::kGoesOn) return;
  if (progress == Connection::Progress::kFailed) {
    return connect_failed(connection_->error_code(), connection_->error());
  }
  state_ = State::kUp;
  ++number_;
  failures_ = 0;
  heard_ = BootClock::now();
  if (hooks_.on_connected) hooks_.on_connected();
}

void Link::connect_failed(const std::string& code, const std::string& why) {
  connection_.reset();
  state_ = State::kDown;
  const milliseconds pause = std::min(kLongestPause, kFirstPause * (1 << std::min(failures_, 6)));
  ++failures_;
  next_try_ = BootClock::now() + pause;
  std::deque<Statement> waiting;
  waiting.swap(queued_);
  for (Statement& statement : waiting) statement.done({Fate::kNotSent, nullptr, code, why});
}

void Link::drop(const std::string& why) {
  connection_.reset();
  state_ = State::kDown;
  next_try_ = BootClock::now();
  std::deque<Sent> lost;
  lost.swap(sent_);
  for (Sent& sent : lost) {
    if (!sent.answered) sent.done({Fate::kUnknown, nullptr, {}, why});
  }
  if (hooks_.on_lost) hooks_.on_lost(why);
}

void Link::write_queued() {
  while (!queued_.empty() && connection_->takes_more()) {
    Statement statement = std::move(queued_.front());
    queued_.pop_front();
    if (statement.on != 0 && statement.on != number_) {
      statement.done({Fate::kNotSent, nullptr, {}, "its connection has ended"});
      continue;
    }
    sent_.push_back({std::move(statement.done), statement.deadline, BootClock::now()});
    if (!connection_->send(statement.request)) return drop(connection_->error());
  }
}

void Link::answered(Answer answer) {
  if (sent_.empty()) return;
  Sent sent = std::move(sent_.front());
  sent_.pop_front();
  if (!sent.answered) sent.done(std::move(answer));
}

}  // namespace holdfast::sql
