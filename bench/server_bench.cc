// The lock service beside a Redis without persistence, over the same number of plain connections.
//
// Pairs: one thread drives N connections, each of which takes and gives back a lock of its own,
//   again and again, one request at a time. The service runs as `holdfast serve` with a SQLite
//   journal, with one in three etcd members, or with one in memory. Redis runs the shortest safe
//   pair of scripts (redis_rig.h). The two take turns; each figure is the median of the rounds, a
//   ratio the median of the rounds' ratios. `spread`: highest minus lowest of the rounds, by the
//   median.
// OneCaller: p50 of a blocking pair on one connection, beside two PINGs and two fdatasync of a file
//   beside the journal. HOLDFAST_BENCH_FOLDER names a folder on a real disk; without it both lie
//   where the tests have their files, which is often memory.
// HeldLocks: 100,000 leases of 30 s, while nothing happens but their renewal.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#ifdef HOLDFAST_HAVE_ETCD
#include "bench/etcd_pairs.h"
#endif
#include "bench/figures.h"
#include "bench/redis_rig.h"
#include "bench/service_drivers.h"
#include "holdfast/client.h"
#include "tests/support/eventually.h"
#include "tests/support/holdfast_server.h"

namespace holdfast::bench {
namespace {

constexpr int kRounds = 7;
[[maybe_unused]] constexpr int kBarePairs = 1'000;

class RedisTraffic final : public Traffic {
 public:
  explicit RedisTraffic(const RedisRig& rig)
      : acquire_(rig.load(kShortestAcquire)), release_(rig.load(kShortestRelease)) {}
  std::string acquire(int connection, std::uint64_t pair) const override {
    return request({"EVALSHA", acquire_, "2", key(connection), "counter", id(pair), "30000"});
  }
  std::string release(int connection, std::uint64_t pair) const override {
    return request({"EVALSHA", release_, "1", key(connection), id(pair)});
  }
  bool granted(std::string_view reply) const override {
    return reply.starts_with(":") && reply != ":0\r\n";
  }
  bool released(std::string_view reply) const override { return reply == ":1\r\n"; }

 private:
  static std::string key(int connection) { return "bench:" + std::to_string(connection); }
  static std::string id(std::uint64_t pair) { return digits(pair, 32); }

  std::string acquire_;
  std::string release_;
};

// A server on a shared journal answers before it leads.
void await_lead(const support::HoldfastServer& server, const support::HoldfastOptions& options) {
  if (options.journal.empty()) return;
  if (!support::eventually([&] { return server.leads(); })) throw std::runtime_error("no lead");
}

void compare(benchmark::State& state, const support::HoldfastOptions& options) {
  RedisRig* const rig = RedisRig::instance();
  if (rig == nullptr) return state.SkipWithError("no redis-server");
  if (const auto why = support::HoldfastServer::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  state.SetLabel(rig->version());
  const auto callers = static_cast<int>(state.range(0));
  support::HoldfastServer server(options);
  await_lead(server, options);
  const ServiceTraffic service;
  const RedisTraffic scripts(*rig);
  Drivers ours(server.port(), callers, service);
  Drivers theirs(rig->port(), callers, scripts);
  std::vector<double> rates, redis_rates, ratios;
  ours.run();
  theirs.run();
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      rates.push_back(ours.run());
      redis_rates.push_back(theirs.run());
      if (rates.back() == 0 || redis_rates.back() == 0) return state.SkipWithError("a pair failed");
      ratios.push_back(rates.back() / redis_rates.back());
    }
    state.SetIterationTime(1 / median(rates));
  }
  state.counters["pairs_per_s"] = median(rates);
  state.counters["spread"] = spread(rates);
  state.counters["redis_per_s"] = median(redis_rates);
  state.counters["of_redis"] = median(ratios);
  state.counters["spread_of_redis"] = spread(ratios);
}

void crowds(benchmark::internal::Benchmark* pairs) {
  pairs->Arg(64)->Arg(256)->Arg(1024);
  pairs->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

// To be 1.0, 1.1 and 1.2 of Redis at least.
void PairsOnSqlite(benchmark::State& state) { compare(state, {}); }
BENCHMARK(PairsOnSqlite)->Apply(crowds);

#ifdef HOLDFAST_HAVE_ETCD
// To be 0.6 of Redis at 256 callers, and 0.9 at 1,024; 20 times the bare pairs of 32 callers on the
// same etcd, which are about as fast as etcd's own package (bench/peers/go). With one shard:
// several on one etcd make more and smaller commits (docs/internals/lock-service-scale.md).
void PairsOnEtcd(benchmark::State& state) {
  if (const auto why = support::EtcdCluster::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  const support::EtcdCluster etcd({.members = 3});
  compare(state, {.journal = etcd.url("/bench"), .arguments = {"--shards", "1"}});
  EtcdPairs bare(etcd, 32);
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) rates.push_back(bare.run(kBarePairs));
  state.counters["bare_per_s"] = median(rates);
  state.counters["of_bare"] = state.counters["pairs_per_s"] / state.counters["bare_per_s"];
}
BENCHMARK(PairsOnEtcd)->Apply(crowds);
#endif

// To be 1.0 of Redis at least.
void PairsInMemory(benchmark::State& state) { compare(state, {.in_memory = true}); }
BENCHMARK(PairsInMemory)->Apply(crowds);

constexpr int kBlocks = 20;
constexpr int kPerBlock = 200;

template <typename Action>
double p50_us(Action action) {
  std::vector<double> times;
  for (int i = 0; i < kPerBlock; ++i) {
    const auto begin = Clock::now();
    action();
    times.push_back(micros_since(begin));
  }
  return median(std::move(times));
}

// The pair to be at most two round trips and two fdatasync.
void OneCaller(benchmark::State& state) {
  if (const auto why = support::HoldfastServer::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  const char* const disk = std::getenv("HOLDFAST_BENCH_FOLDER");
  const std::string folder = disk == nullptr ? "" : std::string(disk) + "/server_bench";
  // A journal of an earlier run would take these requests for late ones.
  if (disk != nullptr) std::filesystem::remove_all(folder);
  support::HoldfastServer server({.journal = disk == nullptr ? "" : "sqlite:" + folder});
  const ServiceTraffic service;
  RawConnection connection(server.port());
  connection.round_trip(service.greeting());
  const std::string ping = request({"PING"});
  const std::string beside = (disk == nullptr ? server.data() : folder) + "/../beside";
  const int file = ::open(beside.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  std::uint64_t pair = 0;
  bool good = file >= 0;
  std::vector<double> pairs, trips, syncs;
  for (auto _ : state) {
    for (int block = 0; block < kBlocks && good; ++block) {
      pairs.push_back(p50_us([&] {
        good = good && service.granted(connection.round_trip(service.acquire(0, ++pair)));
        good = good && service.released(connection.round_trip(service.release(0, pair)));
      }));
      trips.push_back(p50_us([&] { connection.round_trip(ping); }));
      syncs.push_back(p50_us([&] {
        const char bytes[512] = {};
        good = good && ::pwrite(file, bytes, sizeof bytes, 0) > 0 && ::fdatasync(file) == 0;
      }));
    }
    state.SetIterationTime(median(pairs) / 1e6);
  }
  ::close(file);
  ::unlink(beside.c_str());
  if (!good) return state.SkipWithError("a pair failed");
  state.counters["pair_us"] = median(pairs);
  state.counters["round_trip_us"] = median(trips);
  state.counters["fdatasync_us"] = median(syncs);
  state.counters["of_allowed"] = median(pairs) / (2 * median(trips) + 2 * median(syncs));
}
BENCHMARK(OneCaller)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

constexpr int kHeld = 100'000;
constexpr std::chrono::seconds kTwoLeases{60};

// The server's share of a core to be at most 10 percent, and a lock's part of its memory 1 KiB.
void HeldLocks(benchmark::State& state) {
  if (const auto why = support::HoldfastServer::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  support::HoldfastServer server;
  auto client = Client::connect(server.url());
  if (!client) return state.SkipWithError(client.error().message().c_str());
  const double empty = memory_of(server.pid());
  std::vector<Lease> leases;
  leases.reserve(kHeld);
  for (int i = 0; i < kHeld; ++i) {
    auto lease = client->mutex("held/" + std::to_string(i)).try_acquire();
    if (!lease || !*lease) return state.SkipWithError("a free lock was not granted");
    leases.push_back(*std::move(*lease));
  }
  for (auto _ : state) {
    const double before = cpu_of(server.pid());
    const double before_here = cpu_of_this_process();
    const auto begin = Clock::now();
    std::this_thread::sleep_for(kTwoLeases);
    const double seconds = seconds_since(begin);
    state.counters["core_percent"] = 100 * (cpu_of(server.pid()) - before) / seconds;
    state.counters["client_percent"] = 100 * (cpu_of_this_process() - before_here) / seconds;
    state.SetIterationTime(seconds);
  }
  state.counters["bytes_per_lock"] = (memory_of(server.pid()) - empty) / kHeld;
  const auto lost =
      std::count_if(leases.begin(), leases.end(), [](const Lease& lease) { return !lease.held(); });
  if (lost > 0) state.SkipWithError("leases were lost");
  leases.clear();
  if (!client->close(kTwoLeases)) state.SkipWithError("close did not finish");
}
BENCHMARK(HeldLocks)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace holdfast::bench
