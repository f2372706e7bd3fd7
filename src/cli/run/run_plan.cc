#include "src/cli/run/run_plan.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "holdfast/detail/renewal_schedule.h"
#include "holdfast/stores.h"
#include "src/cli/options/config.h"
#include "src/cli/options/duration.h"
#include "src/cli/options/values.h"

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

// The store keeps it as a lease.
constexpr Duration kLongestMinHold = 24h;

template <typename T>
void fill(std::optional<T>& option, const std::optional<T>& configured) {
  if (!option) option = configured;
}

ExitCodes codes_of(const RunOptions& options) {
  return {options.exit_max_hold.value_or(kExitMaxHold), options.exit_lost.value_or(kExitLost),
          options.exit_timeout.value_or(kExitTimeout), options.exit_error.value_or(kExitError)};
}

// Shows as many digits as it takes to tell two lengths from each other.
std::string exactly(Duration time) {
  return time % 1s == 0s || (time < 10s && time % 100ms == 0s)
             ? format_duration(time)
             : std::to_string(time.count()) + "ms";
}

// An assumption before the store is asked. timing_for() checks the real lease once the store has
// answered.
bool leases_are_sessions(const std::string& url) {
  const StoreKind* const store = store_of_url(url);
  return store != nullptr && store->bound_to_client;
}

// `whose` says where the length comes from, `longer` how to have more of it.
Result<Duration> kill_after_of(const RunOptions& options, Duration lease, const std::string& whose,
                               const std::string& longer) {
  const detail::RenewalSchedule schedule(lease);
  const Duration most = std::chrono::floor<Duration>(schedule.longest_kill_after());
  if (!options.kill_after) return std::chrono::floor<Duration>(schedule.default_kill_after());
  if (*options.kill_after <= most) return *options.kill_after;
  return invalid("--kill-after (kill_after of the configuration) of " +
                 exactly(*options.kill_after) + " is more than a third of the lease (" + whose +
                 exactly(lease) +
                 "): the command could not be ended before somebody else may have the lock. Use at"
                 " most " +
                 exactly(most) + ", or a longer " + longer);
}

}  // namespace

Result<Timing> timing_for(const RunPlan& plan, const Guarantees& promised) {
  // A ttl that nobody has named is the session's where that is longer.
  const Duration ttl = promised.bound_to_client ? std::max(plan.ttl, promised.min_ttl) : plan.ttl;
  const bool less = promised.least_renewal > Duration::zero() && promised.least_renewal < ttl;
  const Duration lease = less ? promised.least_renewal : ttl;
  const auto kill_after =
      less ? kill_after_of(plan.options, lease, "of which a renewal leaves ",
                           "session= in the store's URL, if its servers allow that")
           : kill_after_of(plan.options, lease, "--ttl ", "--ttl");
  if (!kill_after) return kill_after.error();
  return Timing{lease, guard_terms(*kill_after, lease)};
}

namespace {

Result<void> fill_from_config(RunOptions& options, const Config& config) {
  fill_by_name(options.lock, config);
  fill(options.lock.wait, config.run.lock.wait);
  fill(options.lock.ttl, config.ttl);
  fill(options.lock.max_hold, config.run.lock.max_hold);
  fill(options.min_hold, config.run.min_hold);
  fill(options.kill_after, config.run.kill_after);
  fill(options.on_lost, config.run.on_lost);
  fill(options.exit_max_hold, config.run.exit_max_hold);
  fill(options.exit_lost, config.run.exit_lost);
  fill(options.exit_timeout, config.run.exit_timeout);
  fill(options.exit_error, config.run.exit_error);
  if (options.min_hold && *options.min_hold > kLongestMinHold) {
    return invalid("--min-hold is longer than a lease can be: use at most 24h");
  }
  if (options.min_hold && options.lock.max_hold && *options.min_hold > *options.lock.max_hold) {
    return invalid("--min-hold is longer than --max-hold");
  }
  if (options.lock.max_hold && options.on_lost == OnLost::kIgnore) {
    return invalid("--max-hold ends the command, and --on-lost ignore forbids that: choose one");
  }
  const bool contained = options.contain.value_or(Contain::kTree) != Contain::kTree;
  if (contained && options.leftover == Leftover::kLeave) {
    return invalid(
        "--contain lets nothing of the command live on, and --leftover leave asks for "
        "that: choose one");
  }
  if (contained && options.reenter) {
    return invalid(
        "--reenter may run the command under the guard of the run around it, which "
        "--contain does not reach: give --contain to that one");
  }
  return {};
}

Result<void> check_json_fd(const RunOptions& options) {
  if (!options.json_fd) return {};
  if (::fcntl(*options.json_fd, F_GETFD) < 0) {
    return invalid("--json-fd " + std::to_string(*options.json_fd) +
                   ": that descriptor is not open (in a shell: --json-fd 3 3>events.jsonl)");
  }
  const int mode = ::fcntl(*options.json_fd, F_GETFL);
  if ((mode & O_PATH) != 0 || (mode & O_ACCMODE) == O_RDONLY) {
    return invalid("--json-fd " + std::to_string(*options.json_fd) +
                   ": that descriptor is not open for writing (in a shell: --json-fd 3"
                   " 3>events.jsonl)");
  }
  // The events are ours to write; the command must not keep the reader waiting.
  if (*options.json_fd > 2) ::fcntl(*options.json_fd, F_SETFD, FD_CLOEXEC);
  return {};
}

// The client reads it, but the command must not, although it could read a file again.
void keep_password_fd(const std::string& url) {
  const auto text = url_option(url, "password_fd");
  int fd = -1;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), fd).ec != std::errc()) {
    return;
  }
  if (fd > 2) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace

Result<void> make_plan(RunOptions options, RunPlan& plan) {
  plan.codes = codes_of(options);
  if (auto fd = check_json_fd(options); !fd) return fd;
  auto resolved = resolve(options.common, plan.settings);
  auto filled = fill_from_config(options, plan.settings.config);
  plan.codes = codes_of(options);
  if (!resolved) return resolved;
  if (!filled) return filled;
  keep_password_fd(plan.settings.store.url);
  plan.ttl = effective_ttl(options.lock.ttl, plan.settings);
  if (!leases_are_sessions(plan.settings.store.url)) {
    const auto kill_after = kill_after_of(options, plan.ttl, "--ttl ", "--ttl");
    if (!kill_after) return kill_after.error();
  }
  plan.min_hold = options.min_hold.value_or(Duration::zero());
  plan.guard.command = options.command;
  plan.guard.on_lost = options.on_lost.value_or(OnLost::kTerm);
  plan.guard.leftover = options.leftover;
  plan.guard.contain = options.contain.value_or(Contain::kTree);
  plan.guard.quiet = options.common.quiet || options.common.json;
  plan.options = std::move(options);
  return {};
}

}  // namespace holdfast::cli
