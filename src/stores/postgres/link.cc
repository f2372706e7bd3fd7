#include "src/stores/postgres/link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "src/base/thread.h"

namespace holdfast::stores::postgres {
namespace {

using base::BootClock;
using base::BootInstant;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{2000};
constexpr int kLongestWait = 1000;  // Milliseconds of one poll().

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string field_of(const PGresult* result, int field) {
  const char* text = PQresultErrorField(result, field);
  return text == nullptr ? "" : text;
}

std::string name_of(const std::string& text) {
  return "hf" + std::to_string(std::hash<std::string>()(text));
}

}  // namespace

Link::Link(const PostgresAddress& address, const char* thread_name, bool keep, Hooks hooks)
    : address_(address),
      thread_name_(thread_name),
      keep_(keep),
      hooks_(std::move(hooks)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Link::~Link() {
  close();
  ::close(wake_);
}

void Link::start() {
  thread_ = base::start_thread(thread_name_, [this] { run(); });
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
  if (connection_ != nullptr) PQfinish(connection_);
  connection_ = nullptr;
}

void Link::run() {
  while (take_tasks()) {
    run_timers();
    check_deadlines();
    const bool wanted = keep_ || !queued_.empty();
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

void Link::check_deadlines() {
  const BootInstant now = BootClock::now();
  bool silent = false;
  for (Sent& sent : sent_) {
    if (sent.answered || sent.statement.deadline > now) continue;
    sent.answered = true;
    silent = silent || heard_ < sent.at;
    const auto done = std::move(sent.statement.done);
    done({Fate::kUnknown, std::nullopt, {}, "no answer in time"});
  }
  if (silent) drop("the server does not answer");
  std::vector<Statement> late;
  for (Statement& statement : queued_) {
    if (statement.deadline <= now) late.push_back(std::move(statement));
  }
  std::erase_if(queued_, [](const Statement& statement) { return !statement.done; });
  for (Statement& statement : late) {
    statement.done({Fate::kNotSent, std::nullopt, {}, "no connection in time"});
  }
}

int Link::wait_ms(BootInstant now) const {
  BootInstant until = now + milliseconds(kLongestWait);
  if (!timers_.empty()) until = std::min(until, timers_.begin()->first);
  for (const Sent& sent : sent_) {
    if (!sent.answered) until = std::min(until, sent.statement.deadline);
  }
  for (const Statement& statement : queued_) until = std::min(until, statement.deadline);
  if (state_ == State::kConnecting) until = std::min(until, connect_by_);
  if (state_ == State::kDown && (keep_ || !queued_.empty())) until = std::min(until, next_try_);
  if (until <= now) return 0;
  return static_cast<int>(std::chrono::ceil<milliseconds>(until - now).count());
}

void Link::wait() {
  pollfd sockets[2] = {{wake_, POLLIN, 0}, {-1, 0, 0}};
  if (state_ == State::kConnecting) {
    sockets[1] = {PQsocket(connection_),
                  static_cast<short>(polling_ == PGRES_POLLING_READING ? POLLIN : POLLOUT), 0};
  } else if (state_ == State::kUp) {
    const int left = PQflush(connection_);
    sockets[1] = {PQsocket(connection_), static_cast<short>(left > 0 ? POLLIN | POLLOUT : POLLIN),
                  0};
  }
  ::poll(sockets, 2, wait_ms(BootClock::now()));
  if (sockets[0].revents != 0) {
    eventfd_t ignored = 0;
    ::eventfd_read(wake_, &ignored);
  }
  if (state_ == State::kConnecting) {
    if (sockets[1].revents != 0) {
      go_on_connecting();
    } else if (BootClock::now() >= connect_by_) {
      connect_failed("no connection within connect_timeout");
    }
  } else if (state_ == State::kUp && sockets[1].revents != 0) {
    heard_ = BootClock::now();
    if (PQconsumeInput(connection_) == 0) return drop(error_text());
    read_answers();
    if (state_ == State::kUp) read_notifications();
  }
}

void Link::begin_connect() {
  connect_by_ = BootClock::now() + address_.connect_timeout;
  const auto words = address_.keywords();
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const auto& [name, value] : words) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  connection_ = PQconnectStartParams(names.data(), values.data(), 0);
  if (connection_ == nullptr || PQstatus(connection_) == CONNECTION_BAD) {
    return connect_failed(error_text());
  }
  state_ = State::kConnecting;
  polling_ = PGRES_POLLING_WRITING;
}

void Link::go_on_connecting() {
  polling_ = PQconnectPoll(connection_);
  if (polling_ == PGRES_POLLING_FAILED) return connect_failed(error_text());
  if (polling_ != PGRES_POLLING_OK) return;
  if (PQsetnonblocking(connection_, 1) != 0 || PQenterPipelineMode(connection_) != 1) {
    return connect_failed(error_text());
  }
  PQsetNoticeProcessor(
      connection_, [](void*, const char*) {}, nullptr);
  state_ = State::kUp;
  failures_ = 0;
  prepared_.clear();
  heard_ = BootClock::now();
  if (hooks_.on_connected) hooks_.on_connected();
}

void Link::connect_failed(std::string why) {
  if (connection_ != nullptr) PQfinish(connection_);
  connection_ = nullptr;
  state_ = State::kDown;
  const milliseconds pause = std::min(kLongestPause, kFirstPause * (1 << std::min(failures_, 6)));
  ++failures_;
  next_try_ = BootClock::now() + pause;
  std::deque<Statement> waiting;
  waiting.swap(queued_);
  for (Statement& statement : waiting) {
    statement.done({Fate::kNotSent, std::nullopt, {}, why});
  }
}

void Link::drop(const std::string& why) {
  PQfinish(connection_);
  connection_ = nullptr;
  state_ = State::kDown;
  next_try_ = BootClock::now();
  std::deque<Sent> lost;
  lost.swap(sent_);
  for (Sent& sent : lost) {
    if (!sent.answered) sent.statement.done({Fate::kUnknown, std::nullopt, {}, why});
  }
  if (hooks_.on_lost) hooks_.on_lost(why);
}

void Link::send(Statement statement) {
  queued_.push_back(std::move(statement));
  // With the first one that finds no connection an attempt begins.
}

void Link::write_queued() {
  while (!queued_.empty()) {
    Sent sent{std::move(queued_.front())};
    queued_.pop_front();
    sent.at = BootClock::now();
    const bool good = put(sent);
    sent_.push_back(std::move(sent));
    if (!good) return drop(error_text());
  }
}

bool Link::put(Sent& sent) {
  const Statement& statement = sent.statement;
  std::vector<const char*> values;
  for (const Param& param : statement.params) values.push_back(param ? param->c_str() : nullptr);
  const int count = static_cast<int>(values.size());
  bool good = true;
  if (prepares_) {
    sent.name = name_of(statement.text);
    sent.prepares = prepared_.insert(sent.name).second;
    if (sent.prepares) {
      good = PQsendPrepare(connection_, sent.name.c_str(), statement.text.c_str(), 0, nullptr) == 1;
    }
    good = good && PQsendQueryPrepared(connection_, sent.name.c_str(), count, values.data(),
                                       nullptr, nullptr, 0) == 1;
  } else {
    good = PQsendQueryParams(connection_, statement.text.c_str(), count, nullptr, values.data(),
                             nullptr, nullptr, 0) == 1;
  }
  return good && PQpipelineSync(connection_) == 1;
}

void Link::read_answers() {
  int gaps = 0;
  while (state_ == State::kUp && !sent_.empty() && PQisBusy(connection_) == 0) {
    PGresult* result = PQgetResult(connection_);
    if (result == nullptr) {  // Between two commands; a second one: nothing more is there.
      if (++gaps > 1) return;
      continue;
    }
    gaps = 0;
    take_result(result);
  }
  if (state_ == State::kUp && PQstatus(connection_) == CONNECTION_BAD) drop(error_text());
}

void Link::take_result(PGresult* result) {
  Rows rows(result);
  Sent& sent = sent_.front();
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
      if (sent.prepares) {
        sent.prepares = false;
      } else {
        sent.answer = {Fate::kDone, std::move(rows)};
      }
      return;
    case PGRES_PIPELINE_SYNC: {
      Sent done = std::move(sent);
      sent_.pop_front();
      if (!done.answered) done.statement.done(std::move(done.answer));
      return;
    }
    case PGRES_PIPELINE_ABORTED: return;
    default: break;
  }
  // The server ends the connection: whatever it says, the statement may have been committed.
  const std::string severity = field_of(result, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != "ERROR") return drop(one_line(PQresultErrorMessage(result)));
  sent.answer = {Fate::kRefused, std::nullopt, field_of(result, PG_DIAG_SQLSTATE),
                 field_of(result, PG_DIAG_MESSAGE_PRIMARY)};
  // A plan that could not be made, or was forgotten, is made again with the next statement.
  if (sent.prepares || sent.answer.state == "26000") prepared_.erase(sent.name);
}

void Link::read_notifications() {
  while (PGnotify* told = PQnotifies(connection_)) {
    if (hooks_.on_notify) hooks_.on_notify(told->relname, told->extra);
    PQfreemem(told);
  }
}

std::string Link::error_text() const {
  if (connection_ == nullptr) return "no memory for a connection";
  return one_line(PQerrorMessage(connection_));
}

}  // namespace holdfast::stores::postgres
