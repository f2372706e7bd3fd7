// Lock pairs on a Redis Cluster with three primaries against three single servers, in one run.
//
// Cluster: one client; Singles: three clients, one to each server. Both sides have three threads
//   with an io_context each, and so many acquisitions in flight on each, on as many names. The two
//   take turns; the figures are medians of the rounds, the ratio is that of the rounds' ratios.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/chains.h"
#include "holdfast/client.h"
#include "tests/support/redis_cluster.h"

namespace holdfast::bench {
namespace {

constexpr std::size_t kServers = 3;
constexpr int kRounds = 9;
constexpr int kPairs = 20'000;  // Each thread does so many in a round.

class Side {
 public:
  // One thread for each of these clients.
  Side(const std::vector<Client>& clients, int in_flight) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      chains_.push_back(std::make_unique<Chains>(clients[i], in_flight,
                                                 "bench" + std::to_string(i) + "/"));
    }
  }

  // Pairs per second of all threads; 0: one failed.
  double run(int pairs) {
    bool failed = false;
    std::vector<double> rates(chains_.size());
    const auto begin = Clock::now();
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < chains_.size(); ++i) {
        threads.emplace_back([&, i] { rates[i] = chains_[i]->run(pairs); });
      }
    }
    const double seconds = seconds_since(begin);
    for (const double rate : rates) failed = failed || rate == 0;
    return failed ? 0 : pairs * static_cast<double>(chains_.size()) / seconds;
  }

 private:
  std::vector<std::unique_ptr<Chains>> chains_;
};

void PairsOfACluster(benchmark::State& state) {
  if (const auto why = support::RedisServer::unavailable()) {
    return state.SkipWithError(("SKIPPED: " + *why).c_str());
  }
  support::RedisCluster cluster({.primaries = kServers});
  std::vector<std::unique_ptr<support::RedisServer>> servers;
  std::vector<Client> separate;
  for (std::size_t i = 0; i < kServers; ++i) {
    servers.push_back(std::make_unique<support::RedisServer>());
    auto client = Client::connect(servers.back()->url());
    if (!client) return state.SkipWithError(client.error().message().c_str());
    separate.push_back(*std::move(client));
  }
  auto client = Client::connect(cluster.url());
  if (!client) return state.SkipWithError(client.error().message().c_str());
  const int in_flight = static_cast<int>(state.range(0));
  Side ours(std::vector<Client>(kServers, *client), in_flight);
  Side theirs(separate, in_flight);
  std::vector<double> rates, single, ratios;
  ours.run(kPairs / 10);
  theirs.run(kPairs / 10);
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      single.push_back(theirs.run(kPairs));
      rates.push_back(ours.run(kPairs));
      if (rates.back() == 0 || single.back() == 0) return state.SkipWithError("a pair failed");
      ratios.push_back(rates.back() / single.back());
    }
    state.SetIterationTime(kPairs * static_cast<double>(kServers) / median(rates));
  }
  state.SetLabel("redis " + std::to_string(servers.front()->version().at(0)) + "." +
                 std::to_string(servers.front()->version().at(1)));
  state.counters["pairs_per_s"] = median(rates);
  state.counters["singles_per_s"] = median(single);
  state.counters["of_singles"] = median(ratios);  // To be 0.9 at least.
  state.counters["spread_of_singles"] = spread(ratios);
}
BENCHMARK(PairsOfACluster)->Arg(16)->Arg(256)->Iterations(1)->UseManualTime()->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace holdfast::bench
