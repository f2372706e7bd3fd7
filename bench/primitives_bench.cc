// The cost of the primitives beside a plain mutex, in memory and on Redis, in the same run.
//
// Cost: one caller, blocking, nobody in the way; beside it Mutex::try_acquire() and
//   release, block by block in turn. `of_mutex`: how many times as long it takes; the median of the
//   blocks' ratios. On Redis the number of requests decides: docs/guide/primitives.md
//   says how many each has.
// Readers64: 64 readers ask at once for one name, from one thread with an io_context, hold it
//   together and give it back. Beside it 64 times one reader in turn (`times_in_turn`: how many
//   times as fast they are together), and 64 readers at once with a name each (`of_apart`: the
//   share of that speed which is left on one name).
// EightIn64: 64 callers in flight pass through a semaphore of 8, and ask again. Beside it the same
//   through a mutex (`times_mutex`), and with a name each, where nobody waits (`of_apart`). Nobody
//   works while holding: what is measured is the handing on, not the eight at once.
// On Redis a single caller is bound to one core and the server to the other.
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>
#include <benchmark/benchmark.h>

#include "bench/redis_rig.h"
#include "holdfast/asio.h"
#include "holdfast/client.h"

namespace holdfast::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kCallers = 64;

// Where a benchmark runs; false: it has said why it cannot.
enum class Place { kMemory, kRedis };

std::optional<Client> connect(benchmark::State& state, Place place) {
  if (place == Place::kRedis && RedisRig::instance() == nullptr) {
    state.SkipWithError("no redis-server");
    return std::nullopt;
  }
  if (place == Place::kRedis) state.SetLabel(RedisRig::instance()->version());
  auto client = Client::connect(place == Place::kRedis ? RedisRig::instance()->url() : "memory:");
  if (client) return *std::move(client);
  state.SkipWithError(client.error().message().c_str());
  return std::nullopt;
}

class Pinned {
 public:
  explicit Pinned(Place place) : pinned_(place == Place::kRedis) { to(0, 1); }
  ~Pinned() { to(-1, -1); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  void to(int ours, int servers) const {
    if (!pinned_) return;
    pin(0, ours);
    pin(RedisRig::instance()->pid(), servers);
  }
  const bool pinned_;
};

// --- One caller.

// One use of a primitive from begin to end; false: it failed.
using Use = std::function<bool()>;

template <typename T>
bool held_and_back(Result<std::optional<T>> got) {
  return got && *got && (*got)->release();
}

Use reader(const Client& client) {
  return [mutex = client.shared_mutex("readers")]() mutable {
    return held_and_back(mutex.try_acquire_shared());
  };
}

Use upgraded(const Client& client) {
  return [mutex = client.shared_mutex("upgrade")]() mutable {
    auto reading = mutex.try_acquire_shared();
    if (!reading || !*reading) return false;
    return held_and_back(mutex.try_upgrade(**reading)) && (*reading)->release();
  };
}

Use permits(const Client& client) {
  return [semaphore = client.semaphore("permits", 8)]() mutable {
    return held_and_back(semaphore.try_acquire(2));
  };
}

Use outermost(const Client& client) {
  return [mutex = client.recursive_mutex("outer"), me = Owner("bench")]() mutable {
    return held_and_back(mutex.try_acquire(me));
  };
}

Use reentry(const Client& client) {
  RecursiveMutex mutex = client.recursive_mutex("inner");
  const Owner me("bench");
  auto outer = std::make_shared<Result<RecursiveLease>>(mutex.acquire(me));
  return [mutex, me, outer]() mutable { return *outer && held_and_back(mutex.try_acquire(me)); };
}

Use stripe(const Client& client) {
  return [stock = client.striped_mutex("striped", 64), key = 0]() mutable {
    return held_and_back(stock.try_acquire(std::to_string(++key)));
  };
}

Use counted(const Client& client) {
  return [latch = client.latch("latch", 1'000'000'000)]() mutable {
    return latch.count_down().has_value();
  };
}

// Nobody to wait for: one party.
Use arrived(const Client& client) {
  auto seat = std::make_shared<Result<BarrierSeat>>(client.barrier("barrier", 1).join());
  return [seat] { return *seat && (*seat)->arrive_and_wait().has_value(); };
}

Use two_locks(const Client& client) {
  return [client] { return held_and_back(client.try_acquire_all({{"two/a"}, {"two/b"}})); };
}

Use led(const Client& client) {
  return [election = client.election("election")]() mutable {
    auto leading = election.try_campaign("10.0.0.7:8080");
    return leading && *leading && (*leading)->resign();
  };
}

Use first(const Client& client) {
  return [client, key = 0]() mutable {
    auto turn = client.once("first/" + std::to_string(++key), 1s).begin();
    return turn && turn->first() && turn->complete("done");
  };
}

Use later(const Client& client) {
  static_cast<void>(
      client.once("later").run([](Lease&) -> Result<std::string> { return std::string("done"); }));
  return [once = client.once("later")]() mutable {
    auto turn = once.begin();
    return turn && turn->outcome() == "done";
  };
}

Use job(const Client& client) {
  return [lock = client.job_lock("job")]() mutable { return held_and_back(lock.try_acquire()); };
}

void Cost(benchmark::State& state, Place place, Use (*make)(const Client&)) {
  const int blocks = 20;
  const int uses = place == Place::kRedis ? 50 : 400;
  const auto client = connect(state, place);
  if (!client) return;
  const Pinned pinned(place);
  Use use = make(*client);
  const Use plain = [mutex = client->mutex("plain")]() mutable {
    return held_and_back(mutex.try_acquire());
  };
  bool ok = use() && plain();
  const auto p50 = [&](const Use& what) {
    std::vector<double> times;
    for (int i = 0; i < uses && ok; ++i) {
      const auto begin = Clock::now();
      ok = what();
      times.push_back(micros_since(begin));
    }
    return median(std::move(times));
  };
  std::vector<double> ours, mutexes, ratios;
  for (auto _ : state) {
    for (int block = 0; block < blocks && ok; ++block) {
      mutexes.push_back(p50(plain));
      ours.push_back(p50(use));
      ratios.push_back(ours.back() / mutexes.back());
    }
    state.SetIterationTime(median(ours) / 1e6);
  }
  if (!ok) return state.SkipWithError("a use failed");
  state.counters["us_p50"] = median(ours);
  state.counters["mutex_us_p50"] = median(mutexes);
  state.counters["of_mutex"] = median(ratios);
  state.counters["spread"] = spread(ratios);
}

#define HOLDFAST_COST(name)                                       \
  BENCHMARK_CAPTURE(Cost, name##_in_memory, Place::kMemory, name) \
      ->Iterations(1)                                             \
      ->UseManualTime()                                           \
      ->Unit(benchmark::kMicrosecond);                            \
  BENCHMARK_CAPTURE(Cost, name##_on_redis, Place::kRedis, name)   \
      ->Iterations(1)                                             \
      ->UseManualTime()                                           \
      ->Unit(benchmark::kMicrosecond)

HOLDFAST_COST(reader);
HOLDFAST_COST(upgraded);
HOLDFAST_COST(permits);
HOLDFAST_COST(outermost);
HOLDFAST_COST(reentry);
HOLDFAST_COST(stripe);
HOLDFAST_COST(counted);
HOLDFAST_COST(arrived);
HOLDFAST_COST(two_locks);
HOLDFAST_COST(led);
HOLDFAST_COST(first);
HOLDFAST_COST(later);
HOLDFAST_COST(job);

// --- Sixty-four callers in flight on one thread.

class Crowd {
 public:
  // `names`: one for all, or one for each.
  Crowd(const Client& client, const std::string& name, int names, Mode mode)
      : client_(client), mode_(mode), leases_(kCallers) {
    for (int i = 0; i < kCallers; ++i) names_.push_back(name + "/" + std::to_string(i % names));
  }

  // All take it, and when the last one has it all give it back. Microseconds; 0: it failed.
  double together() {
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < leases_.size(); ++i) {
      take(i, [] {});
    }
    run();
    for (std::size_t i = 0; i < leases_.size() && !failed_; ++i) {
      give_back(i, [] {});
    }
    run();
    return failed_ ? 0 : micros_since(begin);
  }

  // Each takes it, gives it back and begins anew, so often in all. Times per second; 0: it failed.
  double through(int times) {
    left_ = times;
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < leases_.size(); ++i) pass(i);
    run();
    return failed_ ? 0 : times / micros_since(begin) * 1e6;
  }

 private:
  void run() {
    io_.restart();
    io_.run();
  }
  void pass(std::size_t who) {
    if (left_ == 0 || failed_) return;
    --left_;
    take(who, [this, who] { give_back(who, [this, who] { pass(who); }); });
  }
  void take(std::size_t who, std::function<void()> then) {
    async_acquire(client_, names_[who], mode_, AcquireOptions(),
                  asio::bind_executor(io_, [this, who, then](Result<Lease> lease) {
                    if (!lease) return fail(lease.error());
                    leases_[who] = *std::move(lease);
                    then();
                  }));
  }
  void give_back(std::size_t who, std::function<void()> then) {
    async_release(*leases_[who],
                  asio::bind_executor(io_, [this, then](const Result<void>& released) {
                    if (!released) return fail(released.error());
                    then();
                  }));
  }
  void fail(const Error& error) {
    if (!failed_) std::fprintf(stderr, "%s\n", error.message().c_str());
    failed_ = true;
  }

  asio::io_context io_{1};
  const Client client_;
  const Mode mode_;
  std::vector<std::string> names_;
  std::vector<std::optional<Lease>> leases_;
  int left_ = 0;
  bool failed_ = false;
};

double in_turn(SharedMutex& mutex) {
  const auto begin = Clock::now();
  for (int i = 0; i < kCallers; ++i) {
    if (!held_and_back(mutex.try_acquire_shared())) return 0;
  }
  return micros_since(begin);
}

void Readers64(benchmark::State& state, Place place) {
  const auto client = connect(state, place);
  if (!client) return;
  Crowd together(*client, "shared", 1, Mode::shared());
  Crowd apart(*client, "apart", kCallers, Mode::shared());
  SharedMutex one = client->shared_mutex("one");
  bool ok = together.together() > 0 && apart.together() > 0 && in_turn(one) > 0;
  std::vector<double> ours, turns, aparts, of_turns, of_aparts;
  for (auto _ : state) {
    for (int round = 0; round < 20 && ok; ++round) {
      aparts.push_back(apart.together());
      ours.push_back(together.together());
      turns.push_back(in_turn(one));
      ok = aparts.back() > 0 && ours.back() > 0 && turns.back() > 0;
      of_turns.push_back(turns.back() / ours.back());
      of_aparts.push_back(aparts.back() / ours.back());
    }
    state.SetIterationTime(median(ours) / 1e6);
  }
  if (!ok) return state.SkipWithError("a reader failed");
  state.counters["together_us"] = median(ours);
  state.counters["in_turn_us"] = median(turns);
  state.counters["apart_us"] = median(aparts);
  state.counters["times_in_turn"] = median(of_turns);
  state.counters["of_apart"] = median(of_aparts);
  state.counters["spread"] = spread(of_turns);
}
BENCHMARK_CAPTURE(Readers64, in_memory, Place::kMemory)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Readers64, on_redis, Place::kRedis)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

void EightIn64(benchmark::State& state, Place place) {
  const int times = place == Place::kRedis ? 2'000 : 10'000;
  const auto client = connect(state, place);
  if (!client) return;
  Crowd eight(*client, "eight", 1, Mode::permits(1, 8));
  Crowd one(*client, "one", 1, Mode::exclusive());
  Crowd apart(*client, "apart", kCallers, Mode::exclusive());
  bool ok =
      eight.through(times / 4) > 0 && one.through(times / 4) > 0 && apart.through(times / 4) > 0;
  std::vector<double> ours, mutexes, aparts, of_mutexes, of_aparts;
  for (auto _ : state) {
    for (int round = 0; round < 7 && ok; ++round) {
      mutexes.push_back(one.through(times));
      ours.push_back(eight.through(times));
      aparts.push_back(apart.through(times));
      ok = mutexes.back() > 0 && ours.back() > 0 && aparts.back() > 0;
      of_mutexes.push_back(ours.back() / mutexes.back());
      of_aparts.push_back(ours.back() / aparts.back());
    }
    state.SetIterationTime(1 / median(ours));
  }
  if (!ok) return state.SkipWithError("a caller failed");
  state.counters["passes_per_s"] = median(ours);
  state.counters["mutex_per_s"] = median(mutexes);
  state.counters["apart_per_s"] = median(aparts);
  state.counters["times_mutex"] = median(of_mutexes);
  state.counters["of_apart"] = median(of_aparts);
  state.counters["spread"] = spread(of_mutexes);
}
BENCHMARK_CAPTURE(EightIn64, in_memory, Place::kMemory)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(EightIn64, on_redis, Place::kRedis)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace holdfast::bench
