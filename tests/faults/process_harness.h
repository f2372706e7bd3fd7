// Starts actors (see actor.h), tells them what to do, and stops, wakes and kills them.
//
// Guarantee: no actor outlives its test (parent-death signal, an alarm, SIGKILL by pid in the
// destructor); no call waits longer than its limit, it throws then with all that the actor said.
// Thread-safety: none; one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "tests/faults/line.h"
#include "tests/support/temp_folder.h"

namespace holdfast::faults {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds kPatience = 10s;  // Far above anything that is asserted.

struct ActorOptions {
  std::string clock_file;              // Set: the clock shim is preloaded and reads it.
  std::int64_t boottime_offset_s = 0;  // Not zero: in a time namespace of its own (needs root).
};

class ActorProcess {
 public:
  explicit ActorProcess(const ActorOptions& options = {});
  // Connected.
  explicit ActorProcess(const std::string& url, const ActorOptions& options = {});
  ~ActorProcess();
  ActorProcess(const ActorProcess&) = delete;
  ActorProcess& operator=(const ActorProcess&) = delete;

  int pid() const { return pid_; }

  void send(const std::string& command);
  Line answer(milliseconds limit = kPatience);
  Line ask(const std::string& command, milliseconds limit = kPatience);
  Line event(const std::string& word, milliseconds limit = kPatience);
  // Asks for a lock that is held, and returns once it waits in the queue; answer() is the grant.
  Line queue_up(const std::string& name, milliseconds lease);
  // Whether one has come already.
  bool has_event(const std::string& word);
  void forget_events();

  // Signals; each returns when the process has been seen in its new state, with the host's boot
  // time just before the signal went out.
  std::int64_t kill();
  std::int64_t stop();
  std::int64_t resume();

 private:
  Line take(char kind, const std::string& word, milliseconds limit);
  bool read_more(milliseconds limit);
  [[noreturn]] void fail(const std::string& what) const;

  int pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string partial_;
  std::string said_;
  std::deque<Line> lines_;
};

class TempFolder : public support::TempFolder {
 public:
  // The path of a lock file in it.
  std::string url(const std::string& name = "locks.db") const { return "sqlite://" + file(name); }
};

// Stops it while it is not in the middle of a commit: there it would hold up everybody else on the
// file until it goes on (docs/stores/sqlite.md), which is another fault than a pause. Like stop().
std::int64_t stop_between_commits(ActorProcess& process, const TempFolder& folder);

// Until somebody waits for the lock, as `observer` sees it.
void wait_for_a_waiter(ActorProcess& observer, const std::string& name);

// For faults that last, not for waiting on something: that has an event.
void let_pass(milliseconds duration);
// Until the host's boot time is `ns`.
void let_pass_until(std::int64_t ns);

bool is_root();
bool time_namespaces_work();

constexpr std::int64_t ns(milliseconds duration) {
  return std::chrono::nanoseconds(duration).count();
}

}  // namespace holdfast::faults
