// The way to one server: a thread with one connection, over which statements go without blocking
// anybody. Connection hides the server's client library.
//
// Statements are sent in order, each as a transaction of its own, and as many at once as the
// connection takes; answers come in order.
//
// Turns: the connection and everything beside it belong to one thread at a time, "the link's
// thread" below. That is the link's own thread, which connects, keeps the time, and does the rest
// where nobody else does. Once a loop is lent, two others take turns while the connection stands:
// whoever posts a task runs it and sends what it asks for, and the loop's thread reads the answers.
// So a caller's request wakes one thread on its way instead of three. A caller that blocks may read
// the answers itself while the loop rests: then its request wakes none. Nobody waits for a turn but
// these threads, and no turn blocks but one that connects.
//
// Guarantee: every statement's `done` is called exactly once, on the link's thread, unless close()
// comes first. kNotSent: the statement did not leave this process and never will. kUnknown: it may
// have been executed, or may be later. A statement whose deadline passes closes the connection when
// the server has said nothing since it was sent. So does a server that owes an answer and says
// nothing for connect_timeout. A statement behind others is awaited while they are answered.
// Not guaranteed: that a name is resolved within a deadline; the libraries have no way to bound
// that.
//
// While there is no connection, statements wait for it. When an attempt fails, those that wait end
// with the reason. Attempts go on with every statement; where `keep` is set also without one, with
// exponential backoff.
//
// Thread-safety: post() from any thread; everything else on the link's thread, or before start().
// Callbacks may run while the one that posts holds a mutex: they must take none that is held there.
// Ownership: what the callbacks use outlives close(), and so does the loop.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/port/store.h"
#include "src/sql/values.h"

namespace asio {
class io_context;
}

namespace holdfast::sql {

enum class Fate : std::uint8_t { kDone, kRefused, kNotSent, kUnknown };

struct Answer {
  Fate fate{};
  RowsPtr rows{};         // kDone
  std::string code{};     // kRefused: the server's; kNotSent: the reason's, where there is one.
  std::string message{};  // Otherwise: the reason, for people.
  bool late = false;      // kNotSent: its deadline passed while it waited for its turn.
};

// A request to a server.
struct Request {
  std::string text{};
  Params params{};
  // Several statements may be in one text; the rows of this one are the answer.
  std::size_t answers = 0;
};

struct Statement {
  Request request;
  base::BootInstant deadline{};
  std::function<void(Answer)> done;
  // The connection it is for, as Link::number() says; on a later one it is kNotSent. 0: any.
  std::uint64_t on = 0;
};

// One connection of a client library that does not block, on a link's thread.
class Connection {
 public:
  enum class Progress : std::uint8_t { kGoesOn, kDone, kFailed };
  struct Awaited {
    int socket = -1;
    short events = 0;  // As poll() has them.
  };
  struct Sink {
    std::function<void(Answer)> answered;  // The oldest statement that has no answer yet.
    std::function<void(std::string_view channel, std::string_view payload)> notified;
  };

  virtual ~Connection() = default;
  // The first step of the attempt, and each one after an awaited event.
  virtual Progress start() = 0;
  virtual Progress proceed(short events) = 0;

  virtual Awaited awaits() = 0;
  // Whether it takes a statement now; what it took is on its way.
  virtual bool takes_more() const = 0;
  // False: the connection is lost.
  virtual bool send(const Request& request) = 0;
  virtual bool receive(short events, const Sink& sink) = 0;

  // Why it is lost or was not made: the server's or the library's number, and words.
  virtual std::string error_code() const { return {}; }
  virtual std::string error() const = 0;
};

class Link {
 public:
  struct Settings {
    std::function<std::unique_ptr<Connection>()> connect{};
    std::chrono::milliseconds connect_timeout{3000};
    const char* thread_name = "holdfast-sql";
    bool keep = false;  // The connection is made again without a statement that needs it.
    // When an answer is overdue for that long, the connection counts as dead. Not set: as above.
    std::optional<std::chrono::milliseconds> longest_silence{};
  };
  struct Hooks {
    std::function<void()> on_connected{};
    std::function<void(const std::string& why)> on_lost{};
    std::function<void(std::string_view channel, std::string_view payload)> on_notify{};
  };

  Link(Settings settings, Hooks hooks);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void start();
  // From now on the loop's thread reads the answers. From any thread, once.
  void lend(asio::io_context& loop);
  void post(port::Task task);
  // As post(), and reads answers on this thread until `done` is set, for 10 ms at most. False: the
  // link is busy or has no connection, and nothing was done. May block only where its caller may.
  bool post_and_read(const port::Task& task, const std::atomic<bool>& done);

  void send(Statement statement) { queued_.push_back(std::move(statement)); }
  void at(base::BootInstant when, port::Task task) { timers_.emplace(when, std::move(task)); }
  bool connected() const { return state_ == State::kUp; }
  // Counts the connections that were made: the newest one's number.
  std::uint64_t number() const { return number_; }

  // Runs the tasks posted before, then ends the thread. Nothing is called back afterwards.
  void close();

 private:
  enum class State : std::uint8_t { kDown, kConnecting, kUp };
  struct Sent {
    std::function<void(Answer)> done;
    base::BootInstant deadline{};
    base::BootInstant at{};
    bool answered = false;  // Its deadline has passed.
  };

  class Reader;
  struct Gate;

  void run();
  void begin_turn();
  void turn_of_another();
  bool turn_of_reader(std::uint64_t number);
  bool wait_for_turn(std::uint64_t number);
  bool take_tasks();
  void run_timers();
  base::BootInstant silence_ends() const;
  void read_what_is_late();
  void check_deadlines();
  base::BootInstant next_wake_up() const;
  void wait();
  void start_reading();
  void stop_reading();
  void receive(short events);

  void begin_connect();
  void connecting(Connection::Progress progress);
  void connect_failed(const std::string& code, const std::string& why);
  void drop(const std::string& why);
  void write_queued();
  void answered(Answer answer);

  const Settings settings_;
  const Hooks hooks_;

  base::LocalMutex mutex_;
  base::LocalCondition turn_ended_;
  std::vector<port::Task> tasks_ HOLDFAST_GUARDED_BY(mutex_);
  bool closing_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool in_turn_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::uint64_t read_by_loop_ HOLDFAST_GUARDED_BY(mutex_) = 0;  // This connection; 0: none.
  int wake_ = -1;                                               // An eventfd.
  std::thread thread_;
  const std::shared_ptr<Gate> gate_;

  // The turn's.
  asio::io_context* loop_ = nullptr;
  std::shared_ptr<Reader> reader_;
  bool caller_reads_ = false;          // Instead of the loop.
  base::BootInstant sleeps_until_{};   // The link's own thread.
  std::optional<std::string> broken_;  // Why the connection is to be dropped.
  std::unique_ptr<Connection> connection_;
  State state_ = State::kDown;
  base::BootInstant connect_by_{};
  base::BootInstant next_try_{};
  int failures_ = 0;
  std::uint64_t number_ = 0;
  base::BootInstant heard_{};  // The last byte of the server.
  std::deque<Statement> queued_;
  std::deque<Sent> sent_;
  std::multimap<base::BootInstant, port::Task> timers_;
};

}  // namespace holdfast::sql
