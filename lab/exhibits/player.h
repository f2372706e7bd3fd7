// A process of an exhibit, led through its script step by step: it calls, stops at points inside a
// call, and is stopped or killed.
//
// Guarantee: its actions are in the history (lab/workload/actor.h), even if it is killed; a death
// is recorded before the signal is sent. A process at a point does nothing until it is told to
// continue.
// Not guaranteed: its position between two steps, except after reaches().
//
// Thread-safety: one thread at a time. Ownership: the process ends with the object.
// Blocking: each call for kPatience at most.
// Errors: std::runtime_error: the process reports one, died by itself, or does not answer.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/mode.h"

#include "lab/recorder/recorder.h"
#include "lab/subject/subject.h"

namespace holdfast::lab {

using std::chrono::milliseconds;

struct Role {
  std::string name;  // "alice"
  std::uint32_t process = 0;
  std::uint32_t target = 0;  // Its index in History::targets.
  SubjectKind kind{};
  bool has_points = true;  // If false, it never stops at a point, whatever the script says.
  std::vector<std::string> urls{};
  std::vector<std::string> locks{};
  std::string folder{};     // The recorders' folder.
  std::string resource{};   // File of the guarded resource.
  std::string sql_guard{};  // Or the file of a resource that people write (sql_guard.h).
  Mode mode = Mode::exclusive();
};

class Player {
 public:
  static constexpr milliseconds kPatience{60'000};

  // `stage` records signals to the process.
  Player(Role role, Recorder& stage);
  ~Player();
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  // Calls about one lock at a time. Without a hold, the last three do nothing.
  Outcome acquire(milliseconds ttl, milliseconds wait = {}, std::uint32_t lock = 0);
  Outcome release();
  bool held();
  bool write();  // Returns whether the resource accepted the write.

  // The same in two steps, so that others can act in between.
  void begin_acquire(milliseconds ttl, milliseconds wait = {}, std::uint32_t lock = 0);
  void begin_release();
  Outcome finish();

  // Makes the process stop at this point of its code.
  void stop_at(std::string_view point);
  // Waits until the begun call stops at a point; false if it ended without. Returns at once if the
  // subject has no points.
  bool reaches();
  void go_on();

  void kill9();
  void pause();   // SIGSTOP
  void resume();  // SIGCONT

  const std::string& name() const { return role_.name; }

 private:
  struct Order;
  struct Answer;
  [[noreturn]] void live(int socket);
  void send(const Order& order);
  Answer await();
  bool await_point();
  void record_pause(Phase phase);

  const Role role_;
  Recorder& stage_;
  int socket_ = -1;
  pid_t pid_ = -1;
  std::optional<Outcome> ended_;  // The call's answer, once reaches() has seen it.
};

}  // namespace holdfast::lab
