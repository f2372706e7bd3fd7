#include "lab/runner/run.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <utility>

#include "src/port/service/shards.h"
#include "tests/support/temp_folder.h"

#include "lab/nemesis/nemesis.h"
#include "lab/recorder/collector.h"
#include "lab/resource/resource.h"
#include "lab/rig/commands.h"
#include "lab/rig/rig.h"
#include "lab/rig/targets.h"
#include "lab/runner/stall_watch.h"
#include "lab/runner/workers.h"
#include "lab/scenario/files.h"
#include "lab/scenario/secrets.h"
#include "lab/workload/worker.h"
#include "lab/workload/workload.h"

namespace holdfast::lab {
namespace {

constexpr std::uint32_t kParent = 0;     // Its process number; the clients begin with 1.
constexpr milliseconds kEnding{30'000};  // For the last releases, on a slow machine.
constexpr milliseconds kTurn{10};
constexpr std::size_t kMostOfALog = 1U << 20U;

template <typename T>
T taken(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

// No other run on the same store, now or earlier, has these names.
std::string lock_prefix() {
  char text[40];
  std::snprintf(text, sizeof text, "lab/%08x", static_cast<unsigned>(fresh_id().low));
  return text;
}

// For the marks of all faults, and of stalls.
std::uint64_t room_for(const Scenario& scenario) { return 20'000 + 8 * schedule(scenario).size(); }

// Reads a region's header without mapping it.
std::uint64_t reserved_in(const std::string& folder, std::uint32_t process) {
  const std::string path = folder + "/" + std::to_string(process) + ".events";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::uint64_t reserved = 0;
  const ssize_t size = ::pread(fd, &reserved, sizeof reserved, offsetof(RegionHeader, reserved));
  ::close(fd);
  return size == static_cast<ssize_t>(sizeof reserved) ? reserved : 0;
}

class Run {
 public:
  Run(const Scenario& scenario, const RunOptions& options)
      : scenario_(scenario),
        options_(options),
        prefix_(lock_prefix()),
        recorder_(taken(Recorder::create(folder_.path(), kParent, room_for(scenario)))),
        resource_(taken(
            Resource::create(resource_file(folder_.path()),
                             static_cast<std::uint32_t>(lock_names(scenario, prefix_).size())))) {
    // Clients get the store's URL by other means.
    save_scenario(without_secrets(scenario), folder_.path());
  }

  RunResult go() {
    RunResult result;
    result.scenario = scenario_;
    Struck struck;
    {
      Rig rig(
          scenario_, folder_.path(), [this] { heed_interruption(); }, shards_of_locks());
      result.store = rig.store();
      result.store_version = rig.version();
      const StallWatch stalls(recorder_);
      const std::int64_t begin = now_ns();
      const std::int64_t until = begin + std::chrono::nanoseconds(scenario_.duration).count();
      Workers workers(scenario_, rig, recorder_,
                      {options_.program, folder_.path(), prefix_, begin, until});
      for (std::int64_t slot = 1; slot <= scenario_.clients.processes; ++slot) {
        workers.start(static_cast<std::uint32_t>(slot));
      }
      Nemesis nemesis(scenario_, options_.program, rig, workers, recorder_);
      try {
        drive(rig, workers, nemesis, begin, until);
        nemesis.heal_all();
        result.stuck_processes = workers.finish(kEnding);
      } catch (const NodeFailed& failure) {
        // The records until then are kept. Time in which nobody could act shows nothing.
        workers.abandon();
        result.failed_server = failure.what();
        result.server_log_name = failure.node() + ".log";
        result.server_log = tail_of(failure.log(), kMostOfALog);
      }
      result.processes = workers.started();
      result.stalls = stalls.seen();
      struck = {nemesis.struck_by(), workers.died_at_points()};
      result.faults = nemesis.struck() + struck.died_at_points;
    }
    collect_into(result);
    struck.stood_at_points = stood_at_points(result.history);
    result.faults += struck.stood_at_points;
    if (result.failed_server.empty()) result.idle = idle_of(struck);
    result.verdict = check(result.history, check_options(scenario_));
    return result;
  }

 private:
  struct Struck {
    std::vector<std::size_t> by_clock{};
    std::size_t died_at_points = 0;
    std::size_t stood_at_points = 0;
  };

  void heed_interruption() const {
    if (options_.interrupted && options_.interrupted()) throw Interrupted();
  }

  // Only our own lock service has several, so the hash is known.
  std::vector<std::uint32_t> shards_of_locks() const {
    const Topology* const topology = scenario_.topology.get();
    std::vector<std::uint32_t> shards;
    if (topology == nullptr || !topology->server) return shards;
    for (const std::string& lock : lock_names(scenario_, prefix_)) {
      const auto count = static_cast<std::uint32_t>(topology->server->shards);
      shards.push_back(port::shard_of(lock, count));
    }
    return shards;
  }

  // The client that passed the point records it.
  static std::size_t stood_at_points(const History& history) {
    const auto count =
        std::count_if(history.events.begin(), history.events.end(), [](const Event& event) {
          return event.kind == Kind::kFault && event.phase == Phase::kInvoke &&
                 event.process != kParent;
        });
    return static_cast<std::size_t>(count);
  }

  std::vector<std::size_t> idle_of(const Struck& struck) const {
    std::vector<std::size_t> idle;
    for (std::size_t i = 0; i < struck.by_clock.size(); ++i) {
      const NemesisSpec& spec = scenario_.nemeses[i];
      const bool passed =
          (spec.kind == "kill" ? struck.died_at_points : struck.stood_at_points) > 0;
      if (spec.at.empty() ? struck.by_clock[i] == 0 : !passed) idle.push_back(i);
    }
    return idle;
  }

  void drive(Rig& rig, Workers& workers, Nemesis& nemesis, std::int64_t begin, std::int64_t until) {
    milliseconds told{-1000};
    for (std::int64_t now = begin; now < until; now = now_ns()) {
      const auto since = std::chrono::floor<milliseconds>(std::chrono::nanoseconds(now - begin));
      heed_interruption();
      rig.look_after();
      nemesis.step(since);
      workers.tend();
      if (options_.progress && since - told >= 1s) {
        told = since;
        tell(workers, nemesis, since);
      }
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(kTurn, std::chrono::nanoseconds(until - now)));
    }
  }

  void tell(const Workers& workers, const Nemesis& nemesis, milliseconds now) const {
    Progress progress{now, scenario_.duration, 0, nemesis.struck(), nemesis.active()};
    for (std::uint32_t process = 0; process <= workers.started(); ++process) {
      progress.events += reserved_in(folder_.path(), process);
    }
    options_.progress(progress);
  }

  void collect_into(RunResult& result) const {
    Collected collected = taken(collect(folder_.path()));
    result.torn = collected.torn;
    result.history.events = std::move(collected.events);
    result.history.locks = lock_names(scenario_, prefix_);
    result.history.targets = target_names(scenario_);
    const CheckOptions options = check_options(scenario_);
    result.history.limits = {options.wake_ns,   options.grace_ns, options.busy_samples > 0,
                             options.linger_ns, options.extends,  options.fenced};
  }

  const Scenario& scenario_;
  const RunOptions& options_;
  const std::string prefix_;
  const support::TempFolder folder_{"lab"};
  Recorder recorder_;
  Resource resource_;
};

}  // namespace

bool RunResult::as_expected() const {
  bool fine = stuck_processes == 0 && failed_server.empty() && !missed_a_point();
  for (std::size_t i = 0; i < kClasses; ++i) {
    const auto kind = static_cast<Class>(i);
    fine &= lab::as_expected(scenario.expected(kind), verdict.count(kind));
  }
  return fine;
}

bool RunResult::missed_a_point() const {
  return std::any_of(idle.begin(), idle.end(),
                     [&](std::size_t index) { return !scenario.nemeses[index].at.empty(); });
}

RunResult run(const Scenario& scenario, const RunOptions& options) {
  return Run(scenario, options).go();
}

}  // namespace holdfast::lab
