// Ids per second of the generators. A layout's cap is the limit where it binds; each figure of such
// a layout is beside its cap.
//
// Twitter: one thread, 41/10/12, waiting for each next millisecond, and with 20 ms to borrow:
//   `of_cap` is to be 0.99 at least, and `ahead_ms` at most what may be borrowed.
// Wide: a sequence of 22 bits, which does not bind. `next()` on one thread, in order, is to give
//   50 M a second at least. Two threads with a block each, of which every id looks at the clock
//   (TwoCoarseClocks is the floor: that look and nothing else), or with batches of 64, are to give
//   200 M. `mutex_and_clock`: what an article's generator does for each id, on the same machine.
// Segments: numbers from a store that answers in 5 ms. `next()` on one thread is to give 70 M a
//   second at least (BareSwap is the floor: one compare-and-swap and nothing else), and 9,999 of
// 10,000 calls are to return within 10 us (`p9999_us`, with about
//   30 ns for the clock in it).
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/slow_records.h"
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

void one_thread_at_the_cap(benchmark::State& state, ClockPolicy policy) {
  const auto ids = make("twitter", policy);
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
void Twitter_OneThread(benchmark::State& state) { one_thread_at_the_cap(state, {}); }
BENCHMARK(Twitter_OneThread)->MinTime(2)->UseRealTime();

// A thread that a busy machine lets stand still makes up for it.
void Twitter_OneThreadThatBorrows(benchmark::State& state) {
  one_thread_at_the_cap(state, ClockPolicy::logical().borrow(std::chrono::milliseconds(20)));
}
BENCHMARK(Twitter_OneThreadThatBorrows)->MinTime(2)->UseRealTime();

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

void Wide_TwoThreadsOfBatches(benchmark::State& state) {
  const auto ids = make(kWide, ClockPolicy::logical().borrow(std::chrono::milliseconds(10)));
  constexpr std::int64_t kEach = 300'000;
  std::atomic<bool> good = true;
  for (auto _ : state) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        std::array<std::uint64_t, 64> batch{};
        bool fine = true;
        for (std::int64_t i = 0; i < kEach; ++i) {
          fine = fine && ids->next_batch(batch).value_or(0) == batch.size();
        }
        if (!fine) good = false;
      });
    }
  }
  if (!good) return state.SkipWithError("no id");
  state.SetItemsProcessed(2 * 64 * kEach * static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(Wide_TwoThreadsOfBatches)->UseRealTime()->Unit(benchmark::kMillisecond);

void TwoCoarseClocks(benchmark::State& state) {
  constexpr std::int64_t kEach = 20'000'000;
  for (auto _ : state) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([] {
        timespec ts{};
        for (std::int64_t i = 0; i < kEach; ++i) {
          ::clock_gettime(CLOCK_REALTIME_COARSE, &ts);
          benchmark::DoNotOptimize(ts);
        }
      });
    }
  }
  state.SetItemsProcessed(2 * kEach * static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(TwoCoarseClocks)->UseRealTime()->Unit(benchmark::kMillisecond);

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

void BareSwap(benchmark::State& state) {
  std::atomic<std::uint64_t> word{0};
  for (auto _ : state) {
    std::uint64_t seen = word.load();
    benchmark::DoNotOptimize(word.compare_exchange_strong(seen, seen + 1));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(BareSwap)->UseRealTime();

void Segments_OneThread(benchmark::State& state) {
  const auto ids = open_slow_segments();
  bool good = ids != nullptr && ids->next().has_value();
  for (auto _ : state) good = good && ids->next().has_value();
  if (!good) return state.SkipWithError("no number");
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(Segments_OneThread)->UseRealTime();

void Segments_Batches(benchmark::State& state) {
  const auto ids = open_slow_segments();
  std::vector<std::uint64_t> batch(100);
  bool good = ids != nullptr;
  for (auto _ : state) good = good && ids->next_batch(batch).value_or(0) == batch.size();
  if (!good) return state.SkipWithError("no number");
  state.SetItemsProcessed(100 * static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(Segments_Batches)->UseRealTime();

void Segments_Tail(benchmark::State& state) {
  const auto ids = open_slow_segments();
  bool good = ids != nullptr && ids->next().has_value();
  std::vector<std::uint32_t> took;
  took.reserve(50'000'000);
  auto before = Clock::now();
  for (auto _ : state) {
    good = good && ids->next().has_value();
    const auto after = Clock::now();
    if (took.size() < took.capacity()) {
      took.push_back(static_cast<std::uint32_t>((after - before).count()));
    }
    before = after;
  }
  if (!good || took.empty()) return state.SkipWithError("no number");
  const auto at =
      took.begin() + static_cast<std::ptrdiff_t>(took.size() - took.size() / 10'000 - 1);
  std::nth_element(took.begin(), at, took.end());
  state.counters["p9999_us"] = *at / 1e3;
  state.counters["max_us"] = *std::max_element(at, took.end()) / 1e3;
}
BENCHMARK(Segments_Tail)->MinTime(2)->UseRealTime();

}  // namespace
}  // namespace holdfast::ids
