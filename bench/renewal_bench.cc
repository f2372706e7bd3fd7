// The cost of a hundred thousand held locks while nothing happens but their renewal: the share of
// one core, and the memory. In memory that is the client's and the store's together. On Redis the
// server's share is beside the client's.
//
// HOLDFAST_BENCH_SECONDS says for how long (60 by default: two periods of a 30 s lease's renewals
// six times over). HOLDFAST_BENCH_URL names one more store, a server's.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/figures.h"
#include "bench/redis_rig.h"
#include "holdfast/client.h"

namespace holdfast {
namespace {

constexpr int kLocks = 100'000;

void hold(benchmark::State& state, const std::string& url,
          const bench::RedisRig* server = nullptr) {
  const char* text = std::getenv("HOLDFAST_BENCH_SECONDS");
  const std::chrono::seconds duration(text == nullptr ? 60 : std::atoi(text));
  auto client = Client::connect(url);
  if (!client) return state.SkipWithError(client.error().message().c_str());
  const double empty = bench::heap_of_this_process();
  std::vector<Lease> leases;
  for (int i = 0; i < kLocks; ++i) {
    auto lease = client->mutex("held/" + std::to_string(i)).try_acquire();
    if (!lease || !*lease) return state.SkipWithError("a free lock was not granted");
    leases.push_back(*std::move(*lease));
  }
  state.counters["bytes_per_lock"] = (bench::heap_of_this_process() - empty) / kLocks;
  for (auto _ : state) {
    const double before = bench::cpu_of_this_process();
    const double server_before = server == nullptr ? 0 : server->cpu_seconds();
    std::this_thread::sleep_for(duration);
    const double used = bench::cpu_of_this_process() - before;
    state.SetIterationTime(static_cast<double>(duration.count()));
    state.counters["core_percent"] = 100.0 * used / static_cast<double>(duration.count());
    if (server == nullptr) continue;
    state.counters["server_core_percent"] =
        100.0 * (server->cpu_seconds() - server_before) / static_cast<double>(duration.count());
  }
  int lost = 0;
  for (const Lease& lease : leases) lost += lease.held() ? 0 : 1;
  state.counters["lost"] = lost;
  if (lost > 0) state.SkipWithError("leases were lost");
  leases.clear();
  if (!client->close(std::chrono::seconds(30))) state.SkipWithError("close did not finish");
}

void LocksRenewedInMemory(benchmark::State& state) { hold(state, "memory:"); }
BENCHMARK(LocksRenewedInMemory)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

void LocksRenewedInSqlite(benchmark::State& state) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("holdfast-renewal-bench." + std::to_string(::getpid()));
  hold(state, "sqlite://" + (folder / "locks.db").string());
  std::filesystem::remove_all(folder);
}
BENCHMARK(LocksRenewedInSqlite)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

void LocksRenewedInRedis(benchmark::State& state) {
  const bench::RedisRig* const server = bench::RedisRig::instance();
  if (server == nullptr) return state.SkipWithError("no redis-server");
  state.SetLabel(server->version());
  hold(state, server->url(), server);
}
BENCHMARK(LocksRenewedInRedis)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  if (const char* url = std::getenv("HOLDFAST_BENCH_URL")) {
    benchmark::RegisterBenchmark(
        "LocksRenewedAtUrl",
        [text = std::string(url)](benchmark::State& state) { holdfast::hold(state, text); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kSecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
