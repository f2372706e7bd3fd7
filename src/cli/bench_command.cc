// `holdfast bench`: pairs per second, the time an acquisition takes, and the time of a handoff.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "holdfast/stores.h"
#include "src/cli/bench_pairs.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/settings.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

// A percentile of the sorted values; zero when there are none.
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

// Two clients hand one lock back and forth. The holder waits until the other is queued, notes the
// time and releases; the other notes the time when it gets the lock.
class Handoff : public std::enable_shared_from_this<Handoff> {
 public:
  Handoff(std::string name, const BenchOptions& options)
      : name_(std::move(name)), until_(BenchClock::now() + options.duration) {
    ttl_ = options.ttl.value_or(Duration::zero());
  }

  BenchSample play(const Client& client, int me) {
    BenchSample sample;
    while (BenchClock::now() < until_ && sample.errors == 0) take_turn(client, me, sample);
    const std::lock_guard guard(mutex_);
    over_ = true;
    changed_.notify_all();
    return sample;
  }

 private:
  void take_turn(const Client& client, int me, BenchSample& sample) {
    AcquireOptions how;
    how.ttl = ttl_;
    how.wait = std::chrono::seconds(10);
    // This callback may come after the grant, and even after the end of the benchmark.
    how.on_queued = [self = shared_from_this(), me](std::uint32_t) { self->set_queued(me); };
    auto lease = client.mutex(name_).acquire(how);
    const auto now = BenchClock::now();
    if (!lease) {
      if (BenchClock::now() < until_) sample.fail(lease.error());
      return;
    }
    {
      const std::lock_guard guard(mutex_);
      const bool waited = std::exchange(queued_[me], false);
      if (waited && given_back_ != BenchClock::time_point()) {
        sample.micros.push_back(micros_of(now - given_back_));
      }
    }
    wait_for(1 - me);
    {
      const std::lock_guard guard(mutex_);
      given_back_ = BenchClock::now();
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
  const BenchClock::time_point until_;
  Duration ttl_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  BenchClock::time_point given_back_;
  bool queued_[2] = {false, false};
  bool over_ = false;
};

Result<BenchSample> measure_handoff(const Client& client, const BenchOptions& options,
                                    const std::string& url, const std::string& run,
                                    const Alarms& alarms) {
  // Where no other process can reach the locks, a second client would have locks of its own.
  const StoreKind* const kind = store_of_url(url);
  const bool in_process = kind != nullptr && !kind->shared_by_processes;
  ClientOptions how;
  how.log_event = alarms.sink();
  auto rival = in_process ? Result<Client>(client) : Client::connect(url, std::move(how));
  if (!rival) return rival.error();
  const auto handoff = std::make_shared<Handoff>(bench_lock(run, 0) + "/handoff", options);
  BenchSample other;
  std::thread second([&] { other = handoff->play(*rival, 1); });
  BenchSample all = handoff->play(client, 0);
  second.join();
  all.join(std::move(other));
  if (!in_process) (void)rival->close();
  return all;
}

Json report(const BenchOptions& options, const std::string& store, const BenchSample& pairs,
            double seconds, const BenchSample& handoff) {
  Json out;
  out["store"] = store;
  out["in_flight"] = options.in_flight;
  out["threads"] = options.threads.value_or(1);
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
       {std::pair<const char*, const char*>{"acquire_us", "acquire"}, {"handoff_us", "handoff"}}) {
    const Json& part = report[key];
    table.add(
        {title, part["p50"].dump() + " us", part["p99"].dump() + " us", part["count"].dump()});
  }
  return "store " + printable(report["store"].get<std::string>()) + ", " +
         report["in_flight"].dump() + " in flight on " + report["threads"].dump() +
         " thread(s), over " + report["names"].dump() + " name(s)\n" +
         report["pairs_per_s"].dump() + " lock+unlock pairs per second, " +
         report["errors"].dump() + " errors\n" + table.to_string(colour_wanted(), terminal_width());
}

}  // namespace

int bench_command(const BenchOptions& options) {
  const Alarms alarms = alarms_for(options.common);
  return with_client(options.common, alarms, [&](Client& client, const Settings& settings) {
    if (url_option(settings.store.url, "password_fd")) {
      return usage_error("bench", Error(Errc::kInvalidArgument,
                                        "two clients need the password, and password_fd gives it"
                                        " once: use password_file or password_env"));
    }
    const std::string run = std::to_string(BenchClock::now().time_since_epoch().count());
    double seconds = 1;
    const BenchSample pairs = options.threads ? pairs_by_threads(client, options, run, seconds)
                                              : pairs_by_chains(client, options, run, seconds);
    if (pairs.micros.empty() && pairs.first_error) {
      return fail(*pairs.first_error, settings.shown_store);
    }
    const auto handoff = measure_handoff(client, options, settings.store.url, run, alarms);
    if (!handoff) return fail(handoff.error(), settings.shown_store);
    const Json out = report(options, settings.shown_store, pairs, seconds, *handoff);
    print(options.common.json ? to_line(out) : text_of(out));
    for (const BenchSample* sample : {&pairs, &*handoff}) {
      if (sample->errors > 0) complain("first error: " + printable(sample->first_error->message()));
    }
    return flush_output() && !pairs.micros.empty() ? 0 : kExitError;
  });
}

}  // namespace holdfast::cli
