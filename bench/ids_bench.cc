// Ids per second of the generators. A layout's cap is the limit where it binds; each figure of such
// a layout is beside its cap.
//
// Twitter: one thread, 41/10/12, waiting for each next millisecond: `of_cap` is to be 0.99 at
//   least.
// Wide: a sequence of 22 bits, which does not bind. `next()` on one thread, in order; blocks on two
//   threads. `mutex_and_clock`: what an article's generator does for each id, on the same machine.
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "holdfast/ids/snowflake.h"
#include "holdfast/ids/uuid.h"

namespace holdfast::ids {
namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<Snowflake> make(const char* layout, ClockPolicy policy = {}) {
  return *Snowflake::make({.layout = *Layout::parse(layout), .policy = policy});
}

constexpr const char* kWide = "time:41 sequence:22";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Twitter_OneThread(benchmark::State& state) {
  const auto ids = make("twitter");
  std::uint64_t given = 0;
  bool good = true;
  const auto begin = Clock::now();
  for (auto _ : state) {
    good = good && ids->next().has_value();
    ++given;
  }
  const double rate = static_cast<double>(given) / seconds_since(begin);
  if (!good) return state.SkipWithError("no id");
  state.counters["ids_per_s"] = rate;
  state.counters["of_cap"] = rate / ids->layout().ids_per_second();
  state.counters["ahead_ms"] = static_cast<double>(ids->ahead().count());
}
BENCHMARK(Twitter_OneThread)->MinTime(2)->UseRealTime();

void Wide_OneThread(benchmark::State& state) {
  const auto ids = make(kWide, ClockPolicy::logical().borrow(std::chrono::milliseconds(10)));
  bool good = true;
  for (auto _ : state) good = good && ids->next().has_value();
  if (!good) return state.SkipWithError("no id");
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(Wide_OneThread)->UseRealTime();

void Wide_TwoThreadsOfBlocks(benchmark::State& state) {
  const auto ids = make(kWide, ClockPolicy::logical().borrow(std::chrono::milliseconds(10)));
  constexpr std::int64_t kEach = 20'000'000;
  std::atomic<bool> good = true;
  for (auto _ : state) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        SnowflakeBlock block(*ids, 4'096);
        bool fine = true;
        for (std::int64_t i = 0; i < kEach; ++i) fine = fine && block.next().has_value();
        if (!fine) good = false;
      });
    }
  }
  if (!good) return state.SkipWithError("no id");
  state.SetItemsProcessed(2 * kEach * static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(Wide_TwoThreadsOfBlocks)->UseRealTime()->Unit(benchmark::kMillisecond);

void MutexAndClock(benchmark::State& state) {
  std::mutex mutex;
  std::uint64_t last = 0;
  std::uint64_t sequence = 0;
  for (auto _ : state) {
    const std::lock_guard lock(mutex);
    timespec ts{};
    ::clock_gettime(CLOCK_REALTIME, &ts);
    const auto now = static_cast<std::uint64_t>(ts.tv_sec * 1'000 + ts.tv_nsec / 1'000'000);
    sequence = now == last ? sequence + 1 : 0;
    last = now;
    benchmark::DoNotOptimize(now << 22 | sequence);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(MutexAndClock)->UseRealTime();

template <typename Source>
void Wide128(benchmark::State& state) {
  Source ids;
  bool good = true;
  for (auto _ : state) good = good && ids.next().has_value();
  if (!good) return state.SkipWithError("no id");
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(Wide128<UuidV7>)->Name("UuidV7")->UseRealTime();
BENCHMARK(Wide128<Ulid>)->Name("Ulid")->UseRealTime();

}  // namespace
}  // namespace holdfast::ids

BENCHMARK_MAIN();
