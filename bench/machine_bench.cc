// The cost of the lock machine on one thread: acquire and release, handoff, renewal and expiry,
// beside a number of other live leases. Near-equal times over 1,000 to 1,000,000 leases (cache
// misses aside) show that each is O(log n).
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "src/machine/lock_machine.h"

namespace holdfast::machine {
namespace {

constexpr Duration kLong = std::chrono::hours(1);

// Ids must look like the random ones of real clients. SplitMix64.
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

AcquisitionId nth_id(std::uint64_t n) { return {scramble(n), n}; }

std::string nth_name(std::uint64_t n) { return "lock/" + std::to_string(n); }

// A machine with `leases` live leases, one lock each, whose ends are spread over an hour.
class Loaded {
 public:
  explicit Loaded(std::int64_t leases, Limits limits = {}) : machine(Token{}, limits) {
    for (std::int64_t i = 0; i < leases; ++i) {
      const auto n = static_cast<std::uint64_t>(i);
      names.push_back(nth_name(n));
      ends_us.push_back(static_cast<std::int64_t>(scramble(n) % 3'600'000'000));
      acquire(names.back(), nth_id(n), kLong + Duration{ends_us.back()});
    }
  }

  Reply acquire(std::string_view name, AcquisitionId id, Duration ttl) {
    effects.clear();
    return machine.apply({now, Acquire{.name = name, .id = id, .ttl = ttl, .waiter_ttl = kLong}},
                         effects);
  }

  Reply apply(const Action& action) {
    effects.clear();
    return machine.apply({now, action}, effects);
  }

  LockMachine machine;
  Effects effects;
  Instant now{};
  std::vector<std::string> names;
  std::vector<std::int64_t> ends_us;
};

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int leases : {1'000, 10'000, 100'000, 1'000'000}) bench->Arg(leases);
}

// Acquire and release of `spare` free locks in turn, beside the live leases.
void pairs(benchmark::State& state, std::uint64_t spare, Duration tombstone) {
  Loaded loaded(state.range(0));
  std::vector<std::string> names;
  for (std::uint64_t n = 0; n < spare; ++n) names.push_back("spare/" + std::to_string(n));
  std::uint64_t next = 1ULL << 40;
  for (auto _ : state) {
    const AcquisitionId id = nth_id(++next);
    const std::string& name = names[next % spare];
    loaded.now += Duration{1};
    loaded.acquire(name, id, std::chrono::seconds(30));
    const Reply reply = loaded.apply(Release{.name = name, .id = id, .tombstone = tombstone});
    if (reply.outcome != Outcome::kReleased) state.SkipWithError("not released");
  }
  state.SetItemsProcessed(state.iterations());
}

void Pairs(benchmark::State& state) { pairs(state, 1, Duration{}); }
void PairsOver100000Names(benchmark::State& state) { pairs(state, 100'000, Duration{}); }
void PairsWithTombstones(benchmark::State& state) { pairs(state, 1, std::chrono::seconds(30)); }

BENCHMARK(Pairs)->Apply(sizes);
BENCHMARK(PairsOver100000Names)->Apply(sizes);
BENCHMARK(PairsWithTombstones)->Apply(sizes);

void Renewed(benchmark::State& state) {
  Loaded loaded(state.range(0));
  const auto leases = static_cast<std::uint64_t>(state.range(0));
  std::uint64_t i = 0;
  for (auto _ : state) {
    const std::uint64_t n = scramble(i) % leases;
    loaded.now += Duration{1};
    const Reply reply =
        loaded.apply(Renew{.name = loaded.names[n], .id = nth_id(n), .seq = ++i, .ttl = kLong * 3});
    if (reply.outcome != Outcome::kHeld) state.SkipWithError("not renewed");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Renewed)->Apply(sizes);

// All leases granted, then all expired one by one by the passage of time.
void GrantedThenExpired(benchmark::State& state, bool expired) {
  for (auto _ : state) {
    if (expired) state.PauseTiming();
    Loaded loaded(state.range(0));
    if (expired) {
      state.ResumeTiming();
      while (const auto next = loaded.machine.next_event()) {
        loaded.now = *next;
        loaded.apply(Tick{});
      }
    }
    state.PauseTiming();
    { const Loaded gone = std::move(loaded); }
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void Granted(benchmark::State& state) { GrantedThenExpired(state, false); }
void Expired(benchmark::State& state) { GrantedThenExpired(state, true); }
BENCHMARK(Granted)->Apply(sizes)->Unit(benchmark::kMillisecond);
BENCHMARK(Expired)->Apply(sizes)->Unit(benchmark::kMillisecond);

// One lock with n waiters: the holder releases, the next is granted, and queues again at the tail.
void Handoff(benchmark::State& state) {
  Loaded loaded(0);
  const auto waiters = static_cast<std::uint64_t>(state.range(0));
  for (std::uint64_t n = 0; n <= waiters; ++n) loaded.acquire("hot", nth_id(n), kLong);
  std::uint64_t first = 0;
  for (auto _ : state) {
    loaded.apply(Release{.name = "hot", .id = nth_id(first)});
    loaded.acquire("hot", nth_id(first + waiters + 1), kLong);
    ++first;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Handoff)->Apply(sizes);

// A heartbeat from the middle of a queue of n waiters.
void Heartbeat(benchmark::State& state) {
  Loaded loaded(0);
  const auto waiters = static_cast<std::uint64_t>(state.range(0));
  for (std::uint64_t n = 0; n <= waiters; ++n) loaded.acquire("hot", nth_id(n), kLong);
  std::uint64_t i = 0;
  for (auto _ : state) {
    loaded.now += Duration{1};
    const std::uint64_t n = 1 + scramble(i) % waiters;
    loaded.apply(
        Renew{.name = "hot", .id = nth_id(n), .seq = ++i, .ttl = kLong, .waiter_ttl = kLong});
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Heartbeat)->Apply(sizes);

}  // namespace
}  // namespace holdfast::machine
