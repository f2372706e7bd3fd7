#include "bench/contest.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include <benchmark/benchmark.h>

#include "bench/chains.h"
#include "bench/figures.h"
#include "holdfast/client.h"

namespace holdfast::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 7;
constexpr const char* kTold = "?session=6s";  // Where requests are counted.

// For all benchmarks of the program; nullptr: it has said why there is none.
Site* site_of(benchmark::State& state, const Contest& contest) {
  if (contest.unavailable) {
    state.SkipWithError(("SKIPPED: " + *contest.unavailable).c_str());
    return nullptr;
  }
  static const std::unique_ptr<Site> site = contest.start();
  return site.get();
}

struct Side {
  std::vector<double> rates, client_us, server_us;

  template <typename Runner>
  void run(Runner& runner, int pairs, pid_t server) {
    const double client = cpu_of_this_process(), other = cpu_of(server);
    rates.push_back(runner.run(pairs));
    client_us.push_back((cpu_of_this_process() - client) / pairs * 1e6);
    server_us.push_back((cpu_of(server) - other) / pairs * 1e6);
  }
};

// In folders that it has used before.
double requests_of_a_pair(Site& site, int in_flight) {
  auto client = Client::connect(site.url(kTold));
  if (!client) return 0;
  const int pairs = 20 * in_flight;
  Chains chains(*client, in_flight);
  chains.run(pairs);
  const double before = site.requests();
  chains.run(pairs);
  return (site.requests() - before) / pairs;
}

void pairs_in_flight(benchmark::State& state, const Contest& contest) {
  Site* const site = site_of(state, contest);
  if (site == nullptr) return;
  const int in_flight = static_cast<int>(state.range(0));
  const int pairs = contest.pairs_per_round;
  auto client = Client::connect(site->url(""));
  if (!client) return state.SkipWithError(client.error().message().c_str());
  Chains chains(*client, in_flight);
  Blocking blocking(*client);
  const bool blocks = contest.alone_blocks && in_flight == 1;
  const auto bare = site->raw_pairs(in_flight);
  chains.run(pairs);
  bare->run(pairs);
  Side ours, theirs;
  std::vector<double> ratios;
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      theirs.run(*bare, pairs, site->process());
      if (blocks) {
        ours.run(blocking, pairs, site->process());
      } else {
        ours.run(chains, pairs, site->process());
      }
      if (ours.rates.back() == 0 || theirs.rates.back() == 0) {
        return state.SkipWithError("a pair failed");
      }
      ratios.push_back(ours.rates.back() / theirs.rates.back());
    }
    state.SetIterationTime(pairs / median(ours.rates));
  }
  state.counters["requests"] = requests_of_a_pair(*site, in_flight);
  state.counters["pairs_per_s"] = median(ours.rates);
  state.counters["bare_per_s"] = median(theirs.rates);
  state.counters["of_bare"] = median(ratios);  // To be 0.9 at least.
  state.counters["spread_of_bare"] = spread(ratios);
  state.counters["client_us"] = median(ours.client_us);
  state.counters["server_us"] = median(ours.server_us);
  state.counters["bare_client_us"] = median(theirs.client_us);
  state.counters["bare_server_us"] = median(theirs.server_us);
}

// Sixteen who want the same name; whoever has it measures the bare watch before it releases.
class Crowd {
 public:
  explicit Crowd(Site& site) : site_(site), bare_(site.raw_watch()) {}

  void run() {
    std::vector<std::thread> threads;
    threads.reserve(kWaiters);
    for (int i = 0; i < kWaiters; ++i) {
      threads.emplace_back([this] { take_turns(); });
    }
    for (std::thread& each : threads) each.join();
  }

  std::vector<double> handoffs, watches, trips;

 private:
  static constexpr int kWaiters = 16;
  static constexpr std::size_t kSamples = 300;

  void take_turns() {
    auto client = Client::connect(site_.url(""));
    if (!client) return;
    Mutex hot = client->mutex("hot");
    while (!stop_) {
      auto lease = hot.acquire({.wait = 60s});
      const auto now = Clock::now();
      if (!lease) return;
      const std::lock_guard lock(mutex_);  // For the analysis of races: the lock does it.
      if (released_ != Clock::time_point{}) {
        handoffs.push_back(std::chrono::duration<double, std::micro>(now - released_).count());
      }
      trips.push_back(bare_->round_trip_us());
      watches.push_back(bare_->deletion_us());
      if (handoffs.size() >= kSamples) stop_ = true;
      released_ = Clock::now();
      static_cast<void>(lease->release());
    }
  }

  Site& site_;
  const std::unique_ptr<RawWatch> bare_;
  std::mutex mutex_;
  Clock::time_point released_{};
  std::atomic<bool> stop_ = false;
};

void handoff(benchmark::State& state, const Contest& contest) {
  Site* const site = site_of(state, contest);
  if (site == nullptr) return;
  Crowd crowd(*site);
  for (auto _ : state) {
    crowd.run();
    state.SetIterationTime(median(crowd.handoffs) / 1e6);
  }
  if (crowd.handoffs.empty()) return state.SkipWithError("nobody got the lock");
  const double watch = median(crowd.watches), trip = median(crowd.trips);
  state.counters["handoff_us_p50"] = median(crowd.handoffs);
  state.counters["handoff_us_p99"] = percentile(crowd.handoffs, 0.99);
  state.counters["watch_us_p50"] = watch;
  state.counters["round_trip_us_p50"] = trip;
  state.counters["beyond_watch"] = (median(crowd.handoffs) - watch) / trip;  // 2 at most.
}

void held(benchmark::State& state, const Contest& contest) {
  Site* const site = site_of(state, contest);
  if (site == nullptr) return;
  auto client = Client::connect(site->url(kTold));
  if (!client) return state.SkipWithError(client.error().message().c_str());
  const double empty = heap_of_this_process();
  const Hoard hoard(*client, static_cast<int>(state.range(0)));
  state.counters["bytes_per_lock"] =
      (heap_of_this_process() - empty) / static_cast<double>(state.range(0));
  double before = 0, cpu = 0;
  for (auto _ : state) {
    before = site->requests();
    cpu = cpu_of_this_process();
    std::this_thread::sleep_for(10s);
    state.SetIterationTime(10);
  }
  state.counters["requests_in_10_s"] = site->requests() - before;
  state.counters["client_core_percent"] = (cpu_of_this_process() - cpu) * 10;
  if (!hoard.held()) state.SkipWithError("leases were lost, or not granted");
}

}  // namespace

int run_contest(int argc, char** argv, Contest contest) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const auto add = [&contest](const char* name, void (*run)(benchmark::State&, const Contest&)) {
    auto* const added = benchmark::RegisterBenchmark(
        name, [&contest, run](benchmark::State& state) { run(state, contest); });
    return added->Iterations(1)->UseManualTime();
  };
  auto* const pairs = add("PairsInFlight", &pairs_in_flight);
  for (const int each : contest.in_flight) pairs->Arg(each);
  pairs->Unit(benchmark::kMillisecond);
  add("Handoff", &handoff)->Unit(benchmark::kMicrosecond);
  add("Held", &held)->Arg(100)->Arg(10'000)->Unit(benchmark::kSecond);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace holdfast::bench
