// `hold`, and `acquire` / `renew` / `release` for scripts of several steps.

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/duration.h"
#include "src/cli/options/settings.h"
#include "src/cli/process/boottime.h"
#include "src/cli/run/lock_attempt.h"
#include "src/cli/run/said_if_late.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

// A lock asked for by `hold` or `acquire`.
class Asking {
 public:
  Asking(const HoldOptions& options, const Settings& settings)
      : options_(options), settings_(settings), narrator_(setup()) {
    if (!options.lock.ignored.empty()) narrator_.note(options.lock.ignored);
  }

  // The lease, or an exit status that has been explained.
  std::optional<Lease> take(const std::string& program, bool auto_renew, int& status);

  const Signals& signals() const { return signals_; }
  Narrator& narrator() { return narrator_; }
  // The lease's end frees the lock, whether the store has answered the release or not.
  Result<void> release(Lease& lease);
  void close() {
    if (attempt_) attempt_->close(flush_for_);
  }

 private:
  Narrator::Setup setup() const {
    Narrator::Setup setup = setup_of(options_.common, options_.lock, settings_.shown_store);
    if (options_.common.json) setup.json_fd = STDOUT_FILENO;
    return setup;
  }

  const HoldOptions& options_;
  const Settings& settings_;
  Narrator narrator_;
  Signals signals_;
  std::optional<LockAttempt> attempt_;
  Duration flush_for_ = LockAttempt::kFlush;
};

Result<void> Asking::release(Lease& lease) {
  const Nanos deadline = lease.deadline_boottime();
  const SaidIfLate waiting(narrator_, "take " + in_quotes(lease.name()) + " back", deadline);
  auto released = release_lease(lease);
  if (!released) flush_for_ = LockAttempt::flush_time(deadline);
  return released;
}

std::optional<Lease> Asking::take(const std::string& program, bool auto_renew, int& status) {
  LockRequest request;
  request.lock = options_.lock;
  fill_by_name(request.lock, settings_.config);
  if (!request.lock.ttl) request.lock.ttl = settings_.config.ttl;
  request.store = settings_.store;
  request.auto_renew = auto_renew;
  request.program = shown_program(program);
  attempt_.emplace(signals_, narrator_, std::move(request));
  AttemptOutcome outcome = attempt_->take();
  if (outcome.signal != 0) {
    status = kExitSignalBase + outcome.signal;
  } else if (outcome.error) {
    const bool timed_out = outcome.error->code() == Errc::kTimedOut;
    if (timed_out) narrator_.note(outcome.in_vain);
    status = timed_out ? kExitTimeout : fail(*outcome.error, settings_.shown_store);
  }
  return std::move(outcome.lease);
}

enum class Input { kGoesOn, kHasEnded, kCannotBeRead };

// Discards the input.
Input read_input(short events) {
  if (events == 0) return Input::kGoesOn;
  char scrap[4096];
  const ssize_t n = ::read(STDIN_FILENO, scrap, sizeof scrap);
  if (n > 0) return Input::kGoesOn;
  if (n == 0 || errno == EBADF || errno == EISDIR) return Input::kHasEnded;
  return Input::kCannotBeRead;
}

// 0: the input ended or a signal came; else --max-hold was over, or the lock was lost.
int hold_until_told(Asking& asking, const Lease& lease, std::optional<Duration> max_hold) {
  const Nanos end = max_hold ? boottime_now() + *max_hold : Nanos::max();
  auto bell = std::make_shared<Bell>();
  const std::stop_callback on_loss(lease.lost(), [bell] { bell->ring(); });
  Input input = Input::kGoesOn;
  while (may_be_held(lease)) {
    // Input at a terminal while we are in the background is not for us, but stays readable. Polling
    // it would keep a processor busy.
    const int input_fd = input == Input::kCannotBeRead ? -1 : STDIN_FILENO;
    std::array<pollfd, 3> watched{
        {{asking.signals().fd(), POLLIN, 0}, {bell->fd(), POLLIN, 0}, {input_fd, POLLIN, 0}}};
    const auto left = std::chrono::ceil<Duration>(end - boottime_now());
    if (left <= Duration::zero()) return kExitMaxHold;
    ::poll(watched.data(), watched.size(), static_cast<int>(std::min<Duration>(left, 1s).count()));
    input = read_input(watched[2].revents);
    if (input == Input::kHasEnded) return 0;
    if (asking.signals().next_ending()) return 0;
  }
  return kExitLost;
}

int hold_lease(Asking& asking, const HoldOptions& options, Lease lease) {
  const Narrator& narrator = asking.narrator();
  asking.narrator().granted(lease.token().to_string());
  if (options.common.json) {
    // A slow reader gets the event later. A reader that can never get it would not know that we
    // hold the lock.
    if (!narrator.event("acquired", lease.remaining()) && errno != EAGAIN) {
      complain(std::string("cannot write to standard output: ") + std::strerror(errno));
      return kExitError;
    }
  } else {
    print("held " + printable(lease.name()) + " token " + lease.token().to_string() + "\n");
    if (!flush_output()) return kExitError;
  }
  int status = hold_until_told(asking, lease, options.lock.max_hold);
  if (status == kExitMaxHold) {
    narrator.event("max_hold", lease.remaining(),
                   {{"message", "held for as long as --max-hold allows"}});
  }
  const auto loss = lease.loss();
  const auto released = asking.release(lease);
  if (!released &&
      (released.error().code() == Errc::kLost || released.error().code() == Errc::kBroken)) {
    status = kExitLost;
  }
  if (status == kExitLost) {
    narrator.event("lost");
    const Error& why = loss       ? *loss
                       : released ? Error(Errc::kLost, "the lease ran out")
                                  : released.error();
    narrator.lost(narrator.loss(explain(why, "")), why.code());
    return status;
  }
  if (!released) {
    const Error& why = released.error();
    narrator.event("error", {}, {{"code", errc_name(why.code())}, {"message", why.message()}});
    return fail(why, narrator.setup().store);
  }
  narrator.event("released");
  if (status == kExitMaxHold) {
    narrator.note("gave back the " + narrator.lock() + ", held for as long as --max-hold allows");
  }
  return status;
}

Json lease_json(const Lease& lease, const Narrator::Setup& setup) {
  Json out;
  out["lease"] = lease.id();
  out["name"] = lease.name();
  out["token"] = lease.token().to_string();
  out["mode"] = mode_text(lease.mode());
  out["owner"] = setup.who.owner;
  out["host"] = setup.who.host;
  out["pid"] = setup.who.pid;
  out["since"] = utc_text(std::chrono::system_clock::now());
  out["reason"] = setup.reason;
  out["trace_id"] = setup.trace_id;
  out["time_left_ms"] = lease.remaining().count();
  out["store"] = setup.store;
  return out;
}

// Acquires the lock. Returns the result of `use`, or the exit status of a failure.
template <typename Use>
int take_and(const std::string& program, bool auto_renew, const HoldOptions& options, Use use) {
  Settings settings;
  if (auto resolved = resolve(options.common, settings); !resolved) {
    return fail(resolved.error(), "");
  }
  Asking asking(options, settings);
  int status = kExitError;
  if (auto lease = asking.take(program, auto_renew, status)) {
    status = use(asking, *std::move(lease));
  }
  asking.close();
  return status;
}

// `-` stands for the first line of the standard input. Everybody may read the arguments of a
// process, and the id is enough to release the lock.
Result<std::string> read_lease(std::string lease) {
  if (lease != "-") return lease;
  std::array<char, 4096> line{};
  if (std::fgets(line.data(), line.size(), stdin) != nullptr) {
    lease.assign(line.data(), std::strcspn(line.data(), "\r\n"));
  }
  if (!lease.empty() && lease != "-") return lease;
  return Error(Errc::kInvalidArgument,
               "the standard input has no lease id in its first line: give it what"
               " 'holdfast acquire' printed");
}

// Only the client reads the name out of a lease's id. The ttl is the command's.
void keep_lock_delays(ClientOptions& options, const Config& config) {
  for (const NameRule& rule : config.names) {
    options.names.push_back(
        {.prefix = rule.prefix, .lock_delay = rule.lock_delay.value_or(Duration::zero())});
  }
}

int adopt_and(const std::string& command, const LeaseOptions& options,
              int (*use)(Lease& lease, const LeaseOptions& options, const Settings& settings)) {
  const auto id = read_lease(options.lease);
  if (!id) return usage_error(command, id.error());
  const auto adopt = [&](Client& client, const Settings& settings) {
    AcquireOptions how;
    how.auto_renew = false;
    how.ttl = options.ttl.value_or(Duration::zero());
    auto lease = client.adopt(*id, std::move(how));
    if (!lease) return fail(lease.error(), settings.shown_store);
    return use(*lease, options, settings);
  };
  return with_client(options.common, alarms_for(options.common), adopt, keep_lock_delays);
}

int renew_adopted(Lease& lease, const LeaseOptions& options, const Settings&) {
  const Duration left = lease.remaining();
  lease.detach();
  return answer(options.common,
                {{"lease", lease.id()},
                 {"name", lease.name()},
                 {"token", lease.token().to_string()},
                 {"time_left_ms", left.count()}},
                "renewed " + printable(lease.name()) + " for " + format_duration(left) + "\n");
}

int release_adopted(Lease& lease, const LeaseOptions& options, const Settings& settings) {
  const std::string name = lease.name();
  if (auto released = lease.release(); !released) {
    return fail(released.error(), settings.shown_store);
  }
  return answer(options.common,
                {{"name", name}, {"token", lease.token().to_string()}, {"released", true}},
                "released " + printable(name) + "\n");
}

}  // namespace

int hold_command(const HoldOptions& options) {
  return take_and("hold", true, options, [&](Asking& asking, Lease lease) {
    return hold_lease(asking, options, std::move(lease));
  });
}

int acquire_command(const HoldOptions& options) {
  // Off, because events would mix with the one object that a script reads.
  HoldOptions silent = options;
  silent.common.json = false;
  return take_and("acquire", false, silent, [&](Asking& asking, Lease lease) {
    print(options.common.json ? to_line(lease_json(lease, asking.narrator().setup()))
                              : lease.id() + "\n");
    if (flush_output()) {
      lease.detach();
      return 0;
    }
    (void)lease.release();  // Nobody has read the id, so nobody else could release the lock.
    return kExitError;
  });
}

int renew_command(const LeaseOptions& options) {
  return adopt_and("renew", options, renew_adopted);
}

int release_command(const LeaseOptions& options) {
  return adopt_and("release", options, release_adopted);
}

}  // namespace holdfast::cli
