#include "src/sql/link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>

#include "src/base/thread.h"

namespace holdfast::sql {
namespace {

using base::BootClock;
using base::BootInstant;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{2000};
constexpr int kLongestWait = 1000;  // Milliseconds of one poll().
constexpr int kCallerReads = 10;    // Milliseconds; a slower answer may be left to the loop.

timespec time_until(BootInstant until, BootInstant now) {
  const auto left = std::max<BootClock::duration>(until - now, BootClock::duration::zero());
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(whole.count()),
          static_cast<long>(std::chrono::nanoseconds(left - whole).count())};
}

}  // namespace

// The link, as long as it is there: the loop may have an event for it that comes later.
struct Link::Gate {
  base::LocalMutex mutex;
  Link* link HOLDFAST_GUARDED_BY(mutex) = nullptr;
};

// Waits for the answers on one connection, on the loop's thread. The loop watches an epoll
// descriptor that watches the socket, so that a caller can take the socket away from it by one
// system call, on any thread.
class Link::Reader : public std::enable_shared_from_this<Reader> {
 public:
  // Owns both descriptors: a copy of the connection's socket, and the epoll's.
  Reader(std::shared_ptr<Gate> gate, asio::io_context& loop, int socket, int epoll,
         std::uint64_t number)
      : gate_(std::move(gate)), socket_(socket), epoll_(loop, epoll), number_(number) {
    epoll_event watched{EPOLLIN, {}};
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, socket_, &watched);
  }
  ~Reader() { ::close(socket_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  int socket() const { return socket_; }
  // Whether the loop is told of answers; the turn's.
  void listen(bool on) {
    if (listens_ == on) return;
    listens_ = on;
    epoll_event watched{on ? static_cast<std::uint32_t>(EPOLLIN) : 0U, {}};
    ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_MOD, socket_, &watched);
  }

  void wait() {
    epoll_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](std::error_code error) {
                        if (!error && self->read()) self->wait();
                      });
  }
  void stop() {
    asio::post(epoll_.get_executor(), [self = shared_from_this()] {
      std::error_code none;
      self->epoll_.close(none);
    });
  }

 private:
  bool read() {
    const base::LocalLock lock(gate_->mutex);
    return gate_->link != nullptr && gate_->link->turn_of_reader(number_);
  }

  const std::shared_ptr<Gate> gate_;
  const int socket_;
  asio::posix::stream_descriptor epoll_;
  const std::uint64_t number_;
  bool listens_ = true;
};

Link::Link(Settings settings, Hooks hooks)
    : settings_(std::move(settings)),
      hooks_(std::move(hooks)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      gate_(std::make_shared<Gate>()) {
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  const base::LocalLock lock(gate_->mutex);
  gate_->link = this;
}

Link::~Link() {
  close();
  ::close(wake_);
}

void Link::start() {
  thread_ = base::start_thread(settings_.thread_name, [this] { run(); });
}

void Link::lend(asio::io_context& loop) {
  post([this, &loop] {
    loop_ = &loop;
    if (state_ == State::kUp) start_reading();
  });
}

void Link::post(port::Task task) {
  {
    const base::LocalLock lock(mutex_);
    if (closing_) return;
    tasks_.push_back(std::move(task));
    if (in_turn_) return;  // It is looked for before the turn ends.
    if (read_by_loop_ == 0) {
      ::eventfd_write(wake_, 1);
      return;
    }
    in_turn_ = true;
  }
  turn_of_another();
}

bool Link::post_and_read(const port::Task& task, const std::atomic<bool>& done) {
  {
    const base::LocalLock lock(mutex_);
    if (closing_ || in_turn_ || read_by_loop_ == 0) return false;
    in_turn_ = true;
  }
  // Where others wait for answers, too, the loop serves them all for less.
  if (caller_reads_ || broken_ || !sent_.empty() || !queued_.empty()) {
    turn_of_another();
    return false;
  }
  const std::uint64_t number = number_;
  const std::shared_ptr<Reader> reader = reader_;
  reader->listen(false);
  caller_reads_ = true;
  task();
  turn_of_another();
  pollfd socket{reader->socket(), POLLIN, 0};
  while (true) {
    const bool arrived = !done && ::poll(&socket, 1, kCallerReads) > 0;
    if (!wait_for_turn(number)) return true;
    if (arrived && !done) receive(POLLIN);
    caller_reads_ = arrived && !done && !broken_;
    const bool goes_on = caller_reads_;
    turn_of_another();
    if (!goes_on) return true;
  }
}

void Link::close() {
  {
    const base::LocalLock lock(mutex_);
    if (closing_) return;
    closing_ = true;
    ::eventfd_write(wake_, 1);
    turn_ended_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  {
    const base::LocalLock lock(gate_->mutex);
    gate_->link = nullptr;
  }
  connection_.reset();
}

// --- Turns

void Link::run() {
  begin_turn();
  while (take_tasks()) {
    run_timers();
    check_deadlines();
    if (broken_) drop(*std::exchange(broken_, std::nullopt));
    const bool wanted = settings_.keep || !queued_.empty();
    if (state_ == State::kDown && wanted && BootClock::now() >= next_try_) begin_connect();
    if (state_ == State::kUp) write_queued();
    if (!broken_) wait();
  }
  stop_reading();
  const base::LocalLock lock(mutex_);
  in_turn_ = false;
}

void Link::begin_turn() {
  const base::LocalLock lock(mutex_);
  while (in_turn_) turn_ended_.wait(mutex_);
  in_turn_ = true;
}

// The thread that posted a task, or the loop's: does what cannot wait, and leaves the rest to the
// link's own.
void Link::turn_of_another() {
  take_tasks();
  if (state_ == State::kUp && !broken_) write_queued();
  bool wake = broken_.has_value() || state_ != State::kUp || next_wake_up() < sleeps_until_;
  if (!wake) wake = (connection_->awaits().events & POLLOUT) != 0;
  if (reader_ && !caller_reads_ && !sent_.empty()) reader_->listen(true);
  const base::LocalLock lock(mutex_);
  in_turn_ = false;
  if (wake || !tasks_.empty()) ::eventfd_write(wake_, 1);
  turn_ended_.notify_all();
}

// False: that connection is not read by the loop any more.
bool Link::turn_of_reader(std::uint64_t number) {
  if (!wait_for_turn(number)) return false;
  if (!caller_reads_) receive(POLLIN);
  const bool goes_on = !broken_;
  turn_of_another();
  return goes_on;
}

// False: that connection is not read by others any more than the link's own thread.
bool Link::wait_for_turn(std::uint64_t number) {
  const base::LocalLock lock(mutex_);
  while (in_turn_ && read_by_loop_ == number && !closing_) turn_ended_.wait(mutex_);
  if (read_by_loop_ != number || closing_) return false;
  in_turn_ = true;
  return true;
}

void Link::start_reading() {
  if (loop_ == nullptr) return;
  const int copy = ::fcntl(connection_->awaits().socket, F_DUPFD_CLOEXEC, 0);
  const int epoll = copy < 0 ? -1 : ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) {  // No more descriptors: the link's own thread goes on.
    if (copy >= 0) ::close(copy);
    return;
  }
  reader_ = std::make_shared<Reader>(gate_, *loop_, copy, epoll, number_);
  {
    const base::LocalLock lock(mutex_);
    read_by_loop_ = number_;  // Before the reader starts: it would take its turn for an old one.
  }
  asio::post(*loop_, [reader = reader_] { reader->wait(); });
}

void Link::stop_reading() {
  if (!reader_) return;
  std::exchange(reader_, nullptr)->stop();
  caller_reads_ = false;
  const base::LocalLock lock(mutex_);
  read_by_loop_ = 0;
  turn_ended_.notify_all();
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

// Before anything counts as late: a loop that did not run for a while may have left answers unread.
void Link::read_what_is_late() {
  if (!reader_ || next_wake_up() > BootClock::now()) return;
  pollfd socket{connection_->awaits().socket, POLLIN, 0};
  if (::poll(&socket, 1, 0) > 0) receive(POLLIN);
}

void Link::check_deadlines() {
  read_what_is_late();
  const BootInstant now = BootClock::now();
  bool silent = false;
  for (Sent& sent : sent_) {
    if (sent.answered || sent.deadline > now) continue;
    sent.answered = true;
    silent = silent || heard_ < sent.at;
    const auto done = std::move(sent.done);
    done({Fate::kUnknown, nullptr, {}, "no answer in time"});
  }
  if (silent || silence_ends() <= now) broken_ = "the server does not answer";
  std::vector<Statement> late;
  for (Statement& statement : queued_) {
    if (statement.deadline <= now) late.push_back(std::move(statement));
  }
  std::erase_if(queued_, [](const Statement& statement) { return !statement.done; });
  for (Statement& statement : late) {
    statement.done({Fate::kNotSent, nullptr, {}, "no connection in time", /*late=*/true});
  }
}

BootInstant Link::next_wake_up() const {
  BootInstant until = silence_ends();
  if (!timers_.empty()) until = std::min(until, timers_.begin()->first);
  for (const Sent& sent : sent_) {
    if (!sent.answered) until = std::min(until, sent.deadline);
  }
  for (const Statement& statement : queued_) until = std::min(until, statement.deadline);
  if (state_ == State::kConnecting) until = std::min(until, connect_by_);
  if (state_ == State::kDown && (settings_.keep || !queued_.empty())) {
    until = std::min(until, next_try_);
  }
  return until;
}

void Link::wait() {
  pollfd sockets[2] = {{wake_, POLLIN, 0}, {-1, 0, 0}};
  if (connection_ != nullptr) {
    const Connection::Awaited awaited = connection_->awaits();
    sockets[1] = {awaited.socket, awaited.events, 0};
    if (reader_) sockets[1].events &= static_cast<short>(~POLLIN);
    // So that the end of an idle connection is noticed; not before each of many calls.
    if (reader_ && !caller_reads_) reader_->listen(true);
    if (sockets[1].events == 0) sockets[1].fd = -1;
  }
  const BootInstant now = BootClock::now();
  sleeps_until_ = std::min(now + milliseconds(kLongestWait), next_wake_up());
  const timespec time = time_until(sleeps_until_, now);
  {
    const base::LocalLock lock(mutex_);
    if (!tasks_.empty() || closing_) return;
    in_turn_ = false;
    turn_ended_.notify_all();
  }
  ::ppoll(sockets, 2, &time, nullptr);
  begin_turn();
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
  } else if (state_ == State::kUp && events != 0 && !broken_) {
    receive(events);
  }
}

void Link::receive(short events) {
  if ((events & POLLIN) != 0) heard_ = BootClock::now();
  const bool good = connection_->receive(
      events, {[this](Answer answer) { answered(std::move(answer)); }, hooks_.on_notify});
  if (!good) broken_ = connection_->error();
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
  start_reading();
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
  stop_reading();
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
    if (connection_->send(statement.request)) continue;
    broken_ = connection_->error();
    return;
  }
}

void Link::answered(Answer answer) {
  if (sent_.empty()) return;
  Sent sent = std::move(sent_.front());
  sent_.pop_front();
  if (!sent.answered) sent.done(std::move(answer));
}

}  // namespace holdfast::sql
