// One connection to a PostgreSQL server, and the thread that drives it: statements in a pipeline,
// tasks and timers.
//
// Each statement is a transaction of its own: a Sync stands after each. What is sent while answers
// are awaited goes out at once; answers come in order.
//
// Guarantee: every statement's `done` is called exactly once, on the link's thread, unless close()
// comes first. kNotSent: the statement did not leave this process and never will. kUnknown: it may
// have been executed, or may be later. A statement whose deadline passes closes the connection when
// the server has said nothing since it was sent.
// Not guaranteed: that a name is resolved within a deadline; libpq has no way to bound that.
//
// While there is no connection, statements wait for it. When an attempt fails, those that wait end
// with the reason. Attempts go on with every statement; where `keep` is set also without one, with
// exponential backoff.
//
// Thread-safety: post() from any thread; everything else on the link's thread, or before start().
// Ownership: what the callbacks use outlives close().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include <libpq-fe.h>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/port/store.h"
#include "src/stores/postgres/url.h"
#include "src/stores/postgres/values.h"

namespace holdfast::stores::postgres {

enum class Fate : std::uint8_t { kDone, kRefused, kNotSent, kUnknown };

struct Answer {
  Fate fate{};
  std::optional<Rows> rows{};  // kDone
  std::string state{};         // kRefused: the SQLSTATE.
  std::string message{};       // Otherwise: the reason, for people.
};

struct Statement {
  std::string text;
  Params params{};
  base::BootInstant deadline{};
  std::function<void(Answer)> done;
};

class Link {
 public:
  struct Hooks {
    std::function<void()> on_connected{};
    std::function<void(const std::string& why)> on_lost{};
    std::function<void(std::string_view channel, std::string_view payload)> on_notify{};
  };

  // `keep`: the connection is made again without a statement that needs it.
  Link(const PostgresAddress& address, const char* thread_name, bool keep, Hooks hooks);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void start();
  void post(port::Task task);

  void send(Statement statement);
  void at(base::BootInstant when, port::Task task) { timers_.emplace(when, std::move(task)); }
  // Statements keep a plan on the connection: not through a pooler.
  void prepare_statements(bool on) { prepares_ = on; }
  bool connected() const { return state_ == State::kUp; }

  // Runs the tasks posted before, then ends the thread. Nothing is called back afterwards.
  void close();

 private:
  enum class State : std::uint8_t { kDown, kConnecting, kUp };
  struct Sent {
    Statement statement;
    bool answered = false;  // Its deadline has passed.
    bool prepares = false;  // A Parse of its own goes ahead.
    base::BootInstant at{};
    Answer answer{Fate::kUnknown};
    std::string name{};
  };

  void run();
  bool take_tasks();
  void run_timers();
  void check_deadlines();
  int wait_ms(base::BootInstant now) const;
  void wait();

  void begin_connect();
  void go_on_connecting();
  void connected_now();
  void connect_failed(std::string why);
  void drop(const std::string& why);
  void write_queued();
  bool put(Sent& sent);
  void read_answers();
  void take_result(PGresult* result);
  void read_notifications();
  std::string error_text() const;

  const PostgresAddress address_;
  const char* const thread_name_;
  const bool keep_;
  const Hooks hooks_;

  base::LocalMutex mutex_;
  std::vector<port::Task> tasks_ HOLDFAST_GUARDED_BY(mutex_);
  bool closing_ HOLDFAST_GUARDED_BY(mutex_) = false;
  int wake_ = -1;  // An eventfd.
  std::thread thread_;

  // The thread's.
  PGconn* connection_ = nullptr;
  State state_ = State::kDown;
  PostgresPollingStatusType polling_ = PGRES_POLLING_WRITING;
  base::BootInstant connect_by_{};
  base::BootInstant next_try_{};
  int failures_ = 0;
  base::BootInstant heard_{};  // The last byte of the server.
  bool prepares_ = false;
  std::deque<Statement> queued_;
  std::deque<Sent> sent_;
  std::unordered_set<std::string> prepared_;
  std::multimap<base::BootInstant, port::Task> timers_;
};

}  // namespace holdfast::stores::postgres
