// `holdfast bench`: pairs per second, the time an acquisition takes, and the time of a hand-off.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/help.h"
#include "src/cli/json.h"
#include "src/cli/output.h"
#include "src/cli/settings.h"
#include "src/cli/text.h"

namespace holdfast::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Micros = std::chrono::duration<double, std::micro>;

struct Sample {
  std::vector<double> micros;
  std::uint64_t errors = 0;
  std::optional<Error> first_error;

  void fail(const Error& error) {
    if (errors++ == 0) first_error = error;
  }
  void join(Sample&& other) {
    micros.insert(micros.end(), other.micros.begin(), other.micros.end());
    if (errors == 0) first_error = std::move(other.first_error);
    errors += other.errors;
  }
};

// Of the sorted values; zero when there are none.
double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return std::round(sorted[static_cast<std::size_t>(last * share)] * 10) / 10;
}

Json percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {{"p50", percentile(values, 0.5)},
          {"p99", percentile(values, 0.99)},
          {"count", values.size()}};
}

std::string lock_name(const std::string& run, std::uint64_t number) {
  return "holdfast-bench/" + run + "/" + std::to_string(number);
}

// One caller: takes and gives back, over its share of the names.
Sample pair_loop(const Client& client, const BenchOptions& options, const std::string& run,
                 int caller, Clock::time_point until) {
  Sample sample;
  AcquireOptions how;
  how.ttl = options.ttl.value_or(Duration::zero());
  for (std::uint64_t i = 0; Clock::now() < until; ++i) {
    const auto number =
        (static_cast<std::uint64_t>(caller) + i * static_cast<std::uint64_t>(options.in_flight)) %
        static_cast<std::uint64_t>(options.names);
    const auto begin = Clock::now();
    auto lease = client.mutex(lock_name(run, number)).acquire(how);
    if (!lease) {
      sample.fail(lease.error());
      if (sample.errors > 100) break;  // A store that is down would be asked for ever.
      continue;
    }
    const double micros = Micros(Clock::now() - begin).count();
    if (auto released = lease->release(); !released) {
      sample.fail(released.error());
      continue;
    }
    sample.micros.push_back(micros);
  }
  return sample;
}

Sample measure_pairs(const Client& client, const BenchOptions& options, const std::string& run,
                     double& seconds) {
  const auto begin = Clock::now();
  const auto until = begin + options.duration;
  std::vector<Sample> samples(static_cast<std::size_t>(options.in_flight));
  std::vector<std::thread> callers;
  callers.reserve(samples.size());
  for (int caller = 0; caller < options.in_flight; ++caller) {
    callers.emplace_back([&, caller] {
      samples[static_cast<std::size_t>(caller)] = pair_loop(client, options, run, caller, until);
    });
  }
  for (std::thread& caller : callers) caller.join();
  seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  Sample all;
  for (Sample& sample : samples) all.join(std::move(sample));
  return all;
}

// Two clients pass one lock to and fro. The one who has it waits until the other stands in the
// queue, notes the time and gives it back; the other notes the time when it has it.
class Handoff : public std::enable_shared_from_this<Handoff> {
 public:
  Handoff(std::string name, const BenchOptions& options)
      : name_(std::move(name)), until_(Clock::now() + options.duration) {
    ttl_ = options.ttl.value_or(Duration::zero());
  }

  Sample play(const Client& client, int me) {
    Sample sample;
    while (Clock::now() < until_ && sample.errors == 0) take_turn(client, me, sample);
    const std::lock_guard guard(mutex_);
    over_ = true;
    changed_.notify_all();
    return sample;
  }

 private:
  void take_turn(const Client& client, int me, Sample& sample) {
    AcquireOptions how;
    how.ttl = ttl_;
    how.wait = std::chrono::seconds(10);
    // May come after the lock itself, and so after all is over.
    how.on_queued = [self = shared_from_this(), me](std::uint32_t) { self->set_queued(me); };
    auto lease = client.mutex(name_).acquire(how);
    const auto now = Clock::now();
    if (!lease) {
      if (Clock::now() < until_) sample.fail(lease.error());
      return;
    }
    {
      const std::lock_guard guard(mutex_);
      const bool waited = std::exchange(queued_[me], false);
      if (waited && given_back_ != Clock::time_point()) {
        sample.micros.push_back(Micros(now - given_back_).count());
      }
    }
    wait_for(1 - me);
    {
      const std::lock_guard guard(mutex_);
      given_back_ = Clock::now();
    }
    if (auto released = lease->release(); !released) sample.fail(released.error());
  }

  void set_queued(int me) {
    const std::lock_guard guard(mutex_);
    queued_[me] = true;
    changed_.notify_all();
  }

  void wait_for(int rival) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until_, [this, rival] { return queued_[rival] || over_; });
  }

  const std::string name_;
  const Clock::time_point until_;
  Duration ttl_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point given_back_;
  bool queued_[2] = {false, false};
  bool over_ = false;
};

Result<Sample> measure_handoff(const Client& client, const BenchOptions& options,
                               const std::string& url, const std::string& run,
                               const Alarms& alarms) {
  // Another client of `memory:` would have locks of its own.
  const bool in_process = url.compare(0, 7, "memory:") == 0;
  ClientOptions how;
  how.log_event = alarms.sink();
  auto rival = in_process ? Result<Client>(client) : Client::connect(url, std::move(how));
  if (!rival) return rival.error();
  const auto handoff = std::make_shared<Handoff>(lock_name(run, 0) + "/handoff", options);
  Sample other;
  std::thread second([&] { other = handoff->play(*rival, 1); });
  Sample all = handoff->play(client, 0);
  second.join();
  all.join(std::move(other));
  if (!in_process) (void)rival->close();
  return all;
}

Json report(const BenchOptions& options, const std::string& store, const Sample& pairs,
            double seconds, const Sample& handoff) {
  Json out;
  out["store"] = store;
  out["in_flight"] = options.in_flight;
  out["names"] = options.names;
  out["duration_ms"] = options.duration.count();
  out["pairs_per_s"] = std::round(static_cast<double>(pairs.micros.size()) / seconds * 10) / 10;
  out["acquire_us"] = percentiles(pairs.micros);
  out["handoff_us"] = percentiles(handoff.micros);
  out["errors"] = pairs.errors + handoff.errors;
  return out;
}

std::string text_of(const Json& report) {
  Table table({"WHAT", "P50", "P99", "COUNT"});
  for (const auto& [key, title] :
       {std::pair<const char*, const char*>{"acquire_us", "acquire"}, {"handoff_us", "hand-off"}}) {
    const Json& part = report[key];
    table.add(
        {title, part["p50"].dump() + " us", part["p99"].dump() + " us", part["count"].dump()});
  }
  return "store " + printable(report["store"].get<std::string>()) + ", " +
         report["in_flight"].dump() + " in flight over " + report["names"].dump() + " name(s)\n" +
         report["pairs_per_s"].dump() + " lock+unlock pairs per second, " +
         report["errors"].dump() + " errors\n" + table.to_string(colour_wanted(), terminal_width());
}

}  // namespace

int bench_command(const std::vector<std::string>& arguments) {
  BenchOptions options;
  const auto parsed = parse_bench(arguments, options);
  if (options.common.help) return print_help("bench");
  if (!parsed) return usage_error("bench", parsed.error());
  const Alarms alarms = alarms_for(options.common);
  return with_client(options.common, alarms, [&](Client& client, const Settings& settings) {
    if (url_option(settings.store.url, "password_fd")) {
      return usage_error("bench", Error(Errc::kInvalidArgument,
                                        "two clients need the password, and password_fd gives it"
                                        " once: use password_file or password_env"));
    }
    const std::string run = std::to_string(Clock::now().time_since_epoch().count());
    double seconds = 1;
    const Sample pairs = measure_pairs(client, options, run, seconds);
    if (pairs.micros.empty() && pairs.first_error) {
      return fail(*pairs.first_error, settings.shown_store);
    }
    const auto handoff = measure_handoff(client, options, settings.store.url, run, alarms);
    if (!handoff) return fail(handoff.error(), settings.shown_store);
    const Json out = report(options, settings.shown_store, pairs, seconds, *handoff);
    print(options.common.json ? to_line(out) : text_of(out));
    for (const Sample* sample : {&pairs, &*handoff}) {
      if (sample->errors > 0) complain("first error: " + printable(sample->first_error->message()));
    }
    return flush_output() && !pairs.micros.empty() ? 0 : kExitError;
  });
}

}  // namespace holdfast::cli
