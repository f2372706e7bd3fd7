// Several locks in one step against as many single locks, one after the other.
//
// EightNames: one caller takes eight names and gives them back. `ratio`: how many times as fast
//   acquire_all() and one release are as eight try_acquire() and eight releases, block by block in
//   turn; the median of the blocks' ratios. On Redis a round trip is what counts, so the caller is
//   bound to one core and the server to another.
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/redis_rig.h"
#include "holdfast/client.h"

namespace holdfast::bench {
namespace {

constexpr std::size_t kNames = 8;
constexpr int kBlocks = 40;
constexpr int kRoundsPerBlock = 60;

class Contestants {
 public:
  explicit Contestants(const Client& client) : client_(client) {
    for (std::size_t i = 0; i < kNames; ++i) {
      const std::string name = "multi/" + std::to_string(i);
      mutexes_.push_back(client.mutex(name));
      requests_.push_back({name});
    }
  }

  bool together() {
    auto set = client_.try_acquire_all(requests_);
    return set && *set && (*set)->release();
  }

  bool in_turn() {
    std::vector<Lease> held;
    for (Mutex& mutex : mutexes_) {
      auto lease = mutex.try_acquire();
      if (!lease || !*lease) return false;
      held.push_back(std::move(**lease));
    }
    bool ok = true;
    for (Lease& lease : held) ok = lease.release() && ok;
    return ok;
  }

 private:
  const Client client_;
  std::vector<Mutex> mutexes_;
  std::vector<LockRequest> requests_;
};

void compare(benchmark::State& state, const std::string& url) {
  auto client = Client::connect(url);
  if (!client) return state.SkipWithError(client.error().message().c_str());
  Contestants contestants(*client);
  bool ok = contestants.together() && contestants.in_turn();
  std::vector<double> together, in_turn, ratios;
  const auto measure = [&](auto run) {
    std::vector<double> times;
    for (int i = 0; i < kRoundsPerBlock && ok; ++i) {
      const auto begin = Clock::now();
      ok = run();
      times.push_back(micros_since(begin));
    }
    return median(std::move(times));
  };
  for (auto _ : state) {
    for (int block = 0; block < kBlocks && ok; ++block) {
      together.push_back(measure([&] { return contestants.together(); }));
      in_turn.push_back(measure([&] { return contestants.in_turn(); }));
      ratios.push_back(in_turn.back() / together.back());
    }
    state.SetIterationTime(median(together) / 1e6);
  }
  if (!ok) return state.SkipWithError("a lock could not be had");
  state.counters["together_us_p50"] = median(together);
  state.counters["in_turn_us_p50"] = median(in_turn);
  state.counters["ratio"] = median(ratios);  // On Redis to be 5 at least.
  state.counters["spread"] = spread(ratios);
}

void EightNamesOnRedis(benchmark::State& state) {
  if (RedisRig::instance() == nullptr) return state.SkipWithError("no redis-server");
  RedisRig& rig = *RedisRig::instance();
  state.SetLabel(rig.version());
  pin(0, 0);
  pin(rig.pid(), 1);
  compare(state, rig.url());
  pin(0, -1);
  pin(rig.pid(), -1);
}
BENCHMARK(EightNamesOnRedis)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

void EightNamesInMemory(benchmark::State& state) { compare(state, "memory:"); }
BENCHMARK(EightNamesInMemory)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace holdfast::bench
