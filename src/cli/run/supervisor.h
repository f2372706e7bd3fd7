// Watches over a command that runs under a lock. It keeps the guard informed of the lease, passes
// signals on and moves the terminal. It also makes sure that nothing of the command is left at the
// end.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/lease.h"
#include "src/cli/guard/guard.h"
#include "src/cli/process/tty.h"
#include "src/cli/run/lock_attempt.h"
#include "src/cli/run/narrator.h"

namespace holdfast::cli {

struct SupervisedEnd {
  std::optional<int> status;      // As wait() tells it; not set: killed before it was reaped.
  std::optional<int> cannot_run;  // errno of exec.
  bool lost = false;
  bool max_held = false;  // It was ended as --max-hold was over.
  int left_alone = 0;     // Processes that go on, as --leftover leave says.
  bool guard_died = false;
  std::optional<int> cannot_guard;  // errno of the guard's fork.
  bool tree_empty = false;          // Nothing is left that should have ended, for sure.
};

class Supervisor {
 public:
  struct Parts {
    const Signals& signals;
    Guard& guard;
    Terminal& terminal;
    GroupAnchor& anchor;
    const Narrator& narrator;
    const GuardPlan& plan;
    const GuardTerms& terms;
    bool keeps_streams;  // For a command after this one.
  };
  // `length`: of the lease behind each renewal, at least. `max_hold`: zero: none.
  Supervisor(Parts parts, const Lease& lease, Duration length, Duration max_hold);

  // Returns when the command and all its descendants have ended, or are left alone as the plan
  // says. It also returns when nobody is left to end them; SupervisedEnd::tree_empty tells.
  SupervisedEnd run(const Environment& environment);

 private:
  void wait_for_something() const;
  void look_at_lease();
  void look_at_max_hold();
  void on_lost(const std::string& why, Errc code = Errc::kLost);
  void read_signals();
  void on_signal(int signal);
  void on_message(const GuardMessage& message);
  void on_spawned(const GuardMessage& message);
  void let_go_of_standard_streams() const;
  void on_stopped(int signal);
  void on_exited(int status);
  void look_at_terminal();
  void give_terminal() { in_front_ = parts_.terminal.give_to(command_) || in_front_; }
  void on_guard_gone();
  void back_up_guard();
  bool ends_tree() const { return parts_.plan.on_lost != OnLost::kIgnore; }

  Parts parts_;
  const Lease& lease_;
  Duration tick_;
  Duration max_hold_;
  Nanos max_hold_end_ = Nanos::max();
  std::shared_ptr<Bell> lost_bell_ = std::make_shared<Bell>();
  SupervisedEnd end_;
  Nanos told_deadline_{};
  pid_t command_ = 0;
  pid_t guard_ = 0;
  bool in_front_ = false;  // It was given the terminal, and gets it back after a stop.
  Nanos next_terminal_look_{};
  bool stop_asked_ = false;
  bool continuing_in_front_ = false;  // Until the guard has said that it goes on.
  bool done_ = false;
};

}  // namespace holdfast::cli
