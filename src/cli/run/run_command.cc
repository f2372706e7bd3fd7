// `holdfast run` and `elect`: the lock, the guard, the command and the exit status, in this order.

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>

#include "holdfast/detail/transient.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/guard/guard.h"
#include "src/cli/help.h"
#include "src/cli/options/duration.h"
#include "src/cli/options/settings.h"
#include "src/cli/options/values.h"
#include "src/cli/process/contain.h"
#include "src/cli/process/exec_environment.h"
#include "src/cli/process/process_tree.h"
#include "src/cli/process/tty.h"
#include "src/cli/run/lock_attempt.h"
#include "src/cli/run/run.h"
#include "src/cli/run/run_plan.h"
#include "src/cli/run/said_if_late.h"
#include "src/cli/run/self_lock.h"
#include "src/cli/run/supervisor.h"
#include "src/cli/run/textfile.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// Seconds on the scale of /proc/uptime, which a shell can read.
std::string uptime_text(Nanos instant) {
  char text[40];
  const auto ms = std::chrono::floor<Duration>(instant).count();
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ms / 1000),
                static_cast<long long>(ms % 1000));
  return text;
}

// `deadline`: zero: not known.
Environment environment_for(const RunPlan& plan, const Token& token, const Mode& mode,
                            const std::string& owner, Nanos deadline) {
  Environment out{{"HOLDFAST_NAME", plan.options.lock.name},
                  {"HOLDFAST_TOKEN", token.to_string()},
                  {"HOLDFAST_MODE", mode_word(mode)},
                  {"HOLDFAST_OWNER", owner}};
  if (deadline > Nanos::zero()) out.emplace_back("HOLDFAST_DEADLINE", uptime_text(deadline));
  const std::string& trace = plan.options.lock.trace_id;
  if (!trace.empty()) out.emplace_back("HOLDFAST_TRACE_ID", trace);
  if (plan.candidacy.value) out.emplace_back("HOLDFAST_VALUE", *plan.candidacy.value);
  if (plan.settings.store.exportable) out.emplace_back("HOLDFAST_STORE", plan.settings.store.url);
  return out;
}

Narrator::Setup narrator_setup(const RunPlan& plan) {
  Narrator::Setup setup =
      setup_of(plan.options.common, plan.options.lock, plan.settings.shown_store);
  if (plan.options.common.json) setup.json_fd = STDERR_FILENO;
  if (plan.options.json_fd) setup.json_fd = *plan.options.json_fd;
  setup.people = setup.json_fd != STDERR_FILENO;
  return setup;
}

class Run {
 public:
  explicit Run(RunPlan plan) : plan_(std::move(plan)), narrator_(narrator_setup(plan_)) {
    if (!plan_.options.lock.ignored.empty()) narrator_.note(plan_.options.lock.ignored);
  }

  int go();

 private:
  Result<void> contain();
  int all_rounds();
  int one_round();
  std::optional<int> end_of_round(int status);
  LockRequest request() const;
  Result<void> fit(const Guarantees& promised, AcquireOptions& how) const;
  int with_guard(Guard& guard);
  int reenter();
  int ended(const SupervisedEnd& end, Nanos since);
  void write_metrics(int status);
  int not_acquired(const AttemptOutcome& outcome);
  int granted(Guard& guard, const Client& client, Lease lease);
  int under_lock(Guard& guard, const Timing& timing, Lease lease);
  int exit_status(const SupervisedEnd& end) const;
  bool let_go(Lease lease, Nanos keep_until, bool held);
  void tell_kept(Nanos until) const;
  void leave_to_lease(Lease& lease) const;
  int own_failure(const Error& error) const;

  RunPlan plan_;
  Narrator narrator_;
  Signals signals_;
  Terminal terminal_;
  GroupAnchor anchor_;
  std::optional<Cgroup> cgroup_;
  enum class RoundEnd { kOver, kEnded, kAway };
  RoundEnd round_end_ = RoundEnd::kOver;
  Duration flush_for_ = LockAttempt::kFlush;
  RunFigures figures_;
  Nanos begun_ = boottime_now();
  std::optional<HolderInfo> around_;  // The command is to run under this grant.
  bool has_led_ = false;
};

constexpr auto kPauseBetweenRounds = 1s;

RunOutcome outcome_of(const SupervisedEnd& end) {
  if (end.lost) return RunOutcome::kLost;
  if (end.cannot_run || end.cannot_guard || end.guard_died || !end.status)
    return RunOutcome::kError;
  if (end.max_held) return RunOutcome::kMaxHold;
  const bool good = WIFEXITED(*end.status) && WEXITSTATUS(*end.status) == 0;
  return good ? RunOutcome::kSuccess : RunOutcome::kFailed;
}

bool is_one_thread() {
  int threads = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
       at.increment(error)) {
    ++threads;
  }
  return !error && threads == 1;
}

int Run::own_failure(const Error& error) const {
  const std::string text = explain(error, plan_.settings.shown_store);
  narrator_.event("error", {}, {{"code", errc_name(error.code())}, {"message", text}});
  narrator_.alarm(text);
  return plan_.codes.error;
}

int Run::go() {
  const int status = all_rounds();
  if (around_) return reenter();
  write_metrics(status);
  return status;
}

int Run::all_rounds() {
  if (!proc_is_ours()) {
    return own_failure({Errc::kUnsupported,
                        "/proc does not show the processes of this pid namespace, so 'run' could"
                        " not find all that the command starts. Mount it again: 'mount -t proc proc"
                        " /proc', or 'unshare --mount-proc'"});
  }
  if (const auto contained = contain(); !contained) return own_failure(contained.error());
  std::optional<int> status;
  while (!status) status = end_of_round(one_round());
  return *status;
}

// A run does not fail because its figures cannot be written.
void Run::write_metrics(int status) {
  const auto& file = plan_.options.metrics_textfile;
  if (!file) return;
  const std::string& url = plan_.settings.store.url;
  figures_.lock = plan_.options.lock.name;
  figures_.command = base_name(plan_.options.command.front());
  figures_.store = url.substr(0, url.find(':'));
  figures_.mode = plan_.options.lock.mode;
  figures_.exit_status = status;
  if (const auto written = write_textfile(*file, figures_); !written) {
    narrator_.alarm(written.error().message());
  }
}

// Before the lock is asked for: nobody is to hold one for a command that cannot be started.
Result<void> Run::contain() {
  if (plan_.guard.contain == Contain::kPidns) return check_pid_namespace();
  if (plan_.guard.contain != Contain::kCgroup) return {};
  auto made = Cgroup::make();
  if (!made) return made.error();
  plan_.guard.cgroup = made->path();
  cgroup_.emplace(*std::move(made));
  return {};
}

// A candidate that has led once campaigns until it is told to end, even while the store is away.
// nullopt: another round; otherwise the exit status.
std::optional<int> Run::end_of_round(int status) {
  const RoundEnd how = std::exchange(round_end_, RoundEnd::kOver);
  if (!plan_.candidacy.again || how == RoundEnd::kOver) return status;
  if (how == RoundEnd::kAway && !has_led_) return status;
  has_led_ = true;
  const auto until = std::chrono::steady_clock::now() + kPauseBetweenRounds;
  while (std::chrono::steady_clock::now() < until) {
    pollfd signals{signals_.fd(), POLLIN, 0};
    ::poll(&signals, 1, 100);
    if (const auto signal = signals_.next_ending()) return kExitSignalBase + *signal;
  }
  // The next guard is forked where no thread of the library can hold a lock that it needs.
  if (is_one_thread()) return std::nullopt;
  narrator_.note("a thread of the lock library has not ended, so there is no other campaign");
  return status;
}

int Run::one_round() {
  // Both are forked before the lock library makes its threads.
  auto guard = Guard::start(plan_.guard, signals_);
  if (!guard) return own_failure(guard.error());
  if (terminal_.present()) anchor_.start();
  const int status = with_guard(*guard);
  anchor_.stop();
  guard->finish();
  return status;
}

LockRequest Run::request() const {
  LockRequest request;
  request.lock = plan_.options.lock;
  request.exit_error = plan_.codes.error;
  request.reenter = plan_.options.reenter;
  request.store = plan_.settings.store;
  request.fit = [this](const Guarantees& promised, AcquireOptions& how) {
    return fit(promised, how);
  };
  if (plan_.min_hold > Duration::zero()) {
    // The lease itself must last for --min-hold, because this program, its helpers or the host may
    // die at once.
    request.lock.ttl = std::max(plan_.ttl, plan_.min_hold);
    request.outlives_us = true;
  }
  request.proclaim = plan_.candidacy.value;
  request.program =
      shown_program(plan_.candidacy.value ? "elect" : "run", plan_.options.command.front());
  return request;
}

Result<void> Run::fit(const Guarantees& promised, AcquireOptions& how) const {
  const auto timing = timing_for(plan_, promised);
  if (!timing) return timing.error();
  // The library takes half of the ttl at most; the ending is less than that. (Of a ttl below the
  // session's, which the store refuses by name, it may be more.)
  const Duration ending = timing->ending();
  how.min_remaining = std::min(
      {ending + std::min<Duration>(timing->lease / 10, 3s), timing->lease / 2, plan_.ttl / 2});
  return {};
}

int Run::with_guard(Guard& guard) {
  LockAttempt attempt(signals_, narrator_, request());
  AttemptOutcome outcome = attempt.take(guard.fd());
  around_ = std::move(outcome.around);
  int status = 0;
  if (outcome.lease) {
    status = granted(guard, *attempt.client(), *std::move(outcome.lease));
  } else if (!around_) {
    status = not_acquired(outcome);
  }
  attempt.close(std::exchange(flush_for_, LockAttempt::kFlush));
  return status;
}

// The guard around us ends the command with all else when the lock is lost: it needs none of its
// own, and no supervision.
int Run::reenter() {
  narrator_.granted(around_->token.to_string());
  narrator_.event("reentered", around_->time_left, {{"holder", around_->who.owner}});
  narrator_.chat("running under the " + narrator_.lock() + ", which the run around this one holds");
  const Nanos deadline =
      around_->time_left > Duration::zero() ? boottime_now() + around_->time_left : Nanos::zero();
  ExecEnvironment environment(assignments(
      environment_for(plan_, around_->token, around_->mode, around_->who.owner, deadline)));
  become(plan_.options.command, environment, signals_);
  SupervisedEnd end;
  end.cannot_run = errno;
  return exit_status(end);
}

// The session is known for sure only now: its servers may have made it shorter.
int Run::granted(Guard& guard, const Client& client, Lease lease) {
  const auto timing = timing_for(plan_, client.guarantees());
  if (timing) return under_lock(guard, *timing, std::move(lease));
  (void)lease.release();
  return own_failure(timing.error());
}

int Run::not_acquired(const AttemptOutcome& outcome) {
  const std::string name = in_quotes(plan_.options.lock.name);
  figures_.wait = boottime_now() - begun_;
  if (outcome.signal != 0) {
    figures_.outcome = RunOutcome::kCancelled;
    narrator_.event("cancelled", {}, {{"signal", signal_name(outcome.signal)}});
    narrator_.chat("stopped waiting for " + name + " (SIG" + signal_name(outcome.signal) + ")");
    return kExitSignalBase + outcome.signal;
  }
  const Errc code = outcome.error->code();
  if (detail::is_transient(code) || code == Errc::kLost) round_end_ = RoundEnd::kAway;
  if (code != Errc::kTimedOut) return own_failure(*outcome.error);
  figures_.outcome = RunOutcome::kTimeout;
  narrator_.event("timeout", {}, outcome.closed);
  narrator_.note(outcome.in_vain);
  return plan_.codes.timeout;
}

int Run::under_lock(Guard& guard, const Timing& timing, Lease lease) {
  const Nanos since = boottime_now();
  figures_.wait = since - begun_;
  figures_.token = lease.token();
  narrator_.granted(lease.token().to_string());
  narrator_.event("acquired", lease.remaining());
  narrator_.detail("holding " + in_quotes(lease.name()) + ", token " + lease.token().to_string());
  // This process may have stood still since the grant. The guard would end the command at once by
  // the deadline that it is told first.
  if (lease.remaining() <= timing.ending()) static_cast<void>(lease.renew());
  Supervisor supervisor({signals_, guard, terminal_, anchor_, narrator_, plan_.guard, timing.guard,
                         plan_.candidacy.again},
                        lease, timing.lease,
                        plan_.options.lock.max_hold.value_or(Duration::zero()));
  const std::string& owner = narrator_.setup().who.owner;
  Environment environment =
      environment_for(plan_, lease.token(), lease.mode(), owner, lease.deadline_boottime());
  environment.emplace_back("HOLDFAST_HELD", held_variable(lease.name(), owner, lease.token()));
  SupervisedEnd end = supervisor.run(environment);
  if (!end.tree_empty) {
    leave_to_lease(lease);
    return ended(end, since);
  }
  const bool ran = !end.lost && !end.max_held && !end.guard_died && !end.cannot_run;
  const Nanos keep_until = ran ? since + plan_.min_hold : Nanos::zero();
  const bool kept = let_go(std::move(lease), keep_until, !end.lost);
  if (!kept && !end.lost) {
    end.lost = true;
    narrator_.event("lost", Duration::zero(),
                    {{"message", "found at the release"}, {"command_ended", true}});
    narrator_.lost("the " + narrator_.lock() +
                   " was lost while the command ran (found at the release)");
  }
  if (end.left_alone > 0) {
    narrator_.note(std::to_string(end.left_alone) + " process(es) of the command go on without " +
                   in_quotes(plan_.options.lock.name) + ", as --leftover leave says");
  }
  // A command that has ended by itself is not begun again.
  if (!ran && (end.lost || end.max_held) && plan_.guard.on_lost != OnLost::kIgnore) {
    round_end_ = RoundEnd::kEnded;
  }
  return ended(end, since);
}

int Run::ended(const SupervisedEnd& end, Nanos since) {
  figures_.hold = boottime_now() - since;
  figures_.outcome = outcome_of(end);
  return exit_status(end);
}

// The lock is free from `keep_until` on, or now. false: the store says that it was not ours any
// more. `held`: we did not know that.
bool Run::let_go(Lease lease, Nanos keep_until, bool held) {
  const std::string name = in_quotes(plan_.options.lock.name);
  const Nanos deadline = lease.deadline_boottime();
  const bool keeps = boottime_now() < keep_until;
  Result<void> done;
  {
    const SaidIfLate waiting(narrator_, keeps ? "keep " + name : "take " + name + " back",
                             deadline);
    // The library retries an unanswered release until we close the client.
    done = keeps ? JobLease(std::move(lease), keep_until).release() : release_lease(lease);
  }
  if (done) {
    if (keeps) tell_kept(keep_until);
    if (!keeps) narrator_.event("released");
    return true;
  }
  if (done.error().code() == Errc::kLost || done.error().code() == Errc::kBroken) return false;
  flush_for_ = LockAttempt::flush_time(deadline);
  if (held) {
    narrator_.note("could not tell the store " +
                   std::string(keeps ? "until when to keep " : "that ") + name +
                   (keeps ? "" : " is free") +
                   ", so it is free when the lease ends: " + printable(done.error().message()));
  }
  return true;
}

void Run::tell_kept(Nanos until) const {
  const auto left = std::chrono::ceil<Duration>(until - boottime_now());
  const auto at = std::chrono::system_clock::now() + left;
  narrator_.event("kept", left, {{"until", utc_text(at)}});
  narrator_.note("the lock " + in_quotes(plan_.options.lock.name) + " stays held until " +
                 local_time(at) + ", as --min-hold says");
}

// Whatever may still be running has at least the rest of the lease.
void Run::leave_to_lease(Lease& lease) const {
  std::string text =
      "the guard process and its keeper were killed: processes of the command may still be running";
  if (lease.held()) {
    text += ". The lock " + in_quotes(lease.name()) +
            " is not given back, it is free when its lease ends, in " +
            format_duration(lease.remaining());
  }
  lease.detach();
  narrator_.event("error", {}, {{"code", "kGuardDied"}, {"message", text}});
  narrator_.alarm(text + ": look for them, and end them by hand");
}

int Run::exit_status(const SupervisedEnd& end) const {
  if (end.cannot_run) {
    const std::string& program = plan_.options.command.front();
    const std::string why = std::strerror(*end.cannot_run);
    const bool missing = *end.cannot_run == ENOENT;
    narrator_.event("error", {},
                    {{"code", missing ? "kCommandNotFound" : "kCommandCannotRun"},
                     {"message", "cannot run " + program + ": " + why}});
    narrator_.alarm("cannot run " + in_quotes(program) + ": " + why);
    return missing ? kExitNotFound : kExitCannotRun;
  }
  if (end.lost && plan_.guard.on_lost != OnLost::kIgnore) return plan_.codes.lost;
  if (end.cannot_guard) return own_failure(cannot_start_guard(*end.cannot_guard));
  if (end.guard_died && !end.tree_empty) return plan_.codes.error;
  if (end.guard_died) {
    narrator_.event("error", {}, {{"code", "kGuardDied"}, {"message", "the guard process died"}});
    narrator_.alarm("the guard process died: the command was ended and the lock given back");
    return plan_.codes.error;
  }
  if (end.max_held) return plan_.codes.max_hold;
  if (!end.status) return plan_.codes.error;
  if (WIFSIGNALED(*end.status)) return kExitSignalBase + WTERMSIG(*end.status);
  return WEXITSTATUS(*end.status);
}

}  // namespace

int run_under_lock(const std::string& command, RunOptions options, Candidacy candidacy) {
  RunPlan plan;
  plan.candidacy = std::move(candidacy);
  if (auto made = make_plan(std::move(options), plan); !made) {
    complain(command + ": " + explain(made.error(), ""));
    return plan.codes.error;
  }
  const ExitCodes codes = plan.codes;
  try {
    return Run(std::move(plan)).go();
  } catch (const std::exception& error) {
    complain_of(error);
    return codes.error;
  }
}

int run_command(const std::vector<std::string>& arguments) {
  RunOptions options;
  const auto parsed = parse_run(arguments, options);
  const int error_code = options.exit_error.value_or(kExitError);
  if (options.common.help) return print_help("run");
  if (!parsed) return usage_error("run", parsed.error()), error_code;
  return run_under_lock("run", std::move(options), {});
}

}  // namespace holdfast::cli
