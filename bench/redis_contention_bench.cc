// Contended locks on Redis: handoff, the traffic of waiting, and the price of holding many.
//
// Handoff: seventeen clients, each with a thread in a blocking acquire(), want one name. The holder
//   makes a round trip of the shortest script on a plain socket, notes the time, releases the lock
//   and asks again; the next holder notes the time first thing. Each handoff gives one sample.
//   The holder pauses before the round trip and before the release, so that earlier requests are
//   over and both wake threads that have slept. The median of five round trips in a row is reported
//   as well. The server is pinned to the first core and all clients to the second: otherwise a busy
//   server moves to its client's core, where a round trip takes half as long and says nothing about
//   two hosts. `chrt -f 10` keeps other work off the cores.
// HandoffWithoutPushReader: the same, but the loop's thread reads the pushes and wakes the waiter.
// Waiting: sixteen wait for ten seconds for a seventeenth: what the server was asked meanwhile,
//   from INFO commandstats, per waiter and second. Scripts are EVALSHA, and of heartbeats and
//   renewals only; a PING now and then keeps a subscriber's silent connection; `other_commands` are
//   those that no script calls.
// HandoffInACrowd: one client and one thread with an io_context; 16 and 10,000 asynchronous
//   acquisitions wait for one name. From async_release() to the next handler, whose acquisition
//   asks anew at the end. Both crowds in turn, on names of their own.
// TenThousandRenewed: CPU of this process by getrusage() while it holds 10,000 locks of 30 s, over
//   HOLDFAST_BENCH_SECONDS (30 by default), in percent of one core.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>
#include <benchmark/benchmark.h>

#include "bench/redis_rig.h"
#include "holdfast/asio.h"
#include "holdfast/client.h"
#include "src/stores/redis/redis_store.h"

namespace holdfast::bench {
namespace {

using namespace std::chrono_literals;

bool no_server(benchmark::State& state) {
  if (RedisRig::instance() == nullptr) {
    state.SkipWithError("no redis-server");
    return true;
  }
  state.SetLabel(RedisRig::instance()->version());
  return false;
}

// One connection per thread, the shortest script on it.
class RoundTrip {
 public:
  explicit RoundTrip(const RedisRig& rig)
      : connection_(rig.port()),
        wire_(request({"EVALSHA", rig.load(kShortestRelease), "1", "nobody", "0"})) {}
  double micros() {
    const auto begin = Clock::now();
    connection_.round_trip(wire_);
    return micros_since(begin);
  }

 private:
  RawConnection connection_;
  const std::string wire_;
};

// --- Sixteen clients.

constexpr int kWaiters = 16;
constexpr int kHandoffs = 1500;
constexpr auto kPause = 300us;

struct Baton {
  std::mutex mutex;
  Clock::time_point given;
  bool passed = false;  // By somebody, since when another one waits.
  std::vector<double> handed;
  std::vector<double> raw;
  std::vector<double> raw_again;
  std::atomic<int> left{kHandoffs};
  std::atomic<bool> failed{false};
};

// One of those who want the lock.
void take_turns(Baton& baton) {
  auto client = Client::connect(RedisRig::instance()->url());
  if (!client) {
    baton.failed = true;
    return;
  }
  Mutex mutex = client->mutex("hot");
  RoundTrip round_trip(*RedisRig::instance());
  while (baton.left > 0 && !baton.failed) {
    auto lease = mutex.acquire({.wait = 30s});
    const auto now = Clock::now();
    if (!lease) {
      std::fprintf(stderr, "%s\n", lease.error().message().c_str());
      baton.failed = true;
      return;
    }
    std::this_thread::sleep_for(kPause);
    const double single = round_trip.micros();
    std::vector<double> raw;
    raw.reserve(5);
    for (int i = 0; i < 5; ++i) raw.push_back(round_trip.micros());
    std::this_thread::sleep_for(kPause);
    {
      const std::lock_guard lock(baton.mutex);
      if (baton.passed) {
        baton.handed.push_back(
            std::chrono::duration<double, std::micro>(now - baton.given).count());
        baton.raw.push_back(single);
        baton.raw_again.push_back(median(raw));
        --baton.left;
      }
      baton.passed = true;
      baton.given = Clock::now();
    }
    if (!lease->release()) baton.failed = true;
  }
}

// Calls by command, of INFO commandstats.
std::map<std::string, double> command_counts(RawConnection& connection) {
  std::map<std::string, double> counts;
  std::istringstream lines(connection.ask({"INFO", "commandstats"}));
  for (std::string line; std::getline(lines, line);) {
    const auto calls = line.find(":calls=");
    if (!line.starts_with("cmdstat_") || calls == std::string::npos) continue;
    counts[line.substr(8, calls - 8)] = std::atof(line.c_str() + calls + 7);
  }
  return counts;
}

// The requests of sixteen waiters, per waiter and second.
bool count_commands(benchmark::State& state) {
  constexpr auto kFor = 10s;
  const std::string url = RedisRig::instance()->url();
  auto holder = Client::connect(url);
  auto held = holder ? holder->mutex("quiet").acquire() : Result<Lease>(holder.error());
  if (!held) return false;
  std::atomic<int> queued = 0;
  std::stop_source over;
  std::vector<std::thread> waiters;
  waiters.reserve(kWaiters);
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&] {
      auto client = Client::connect(url);
      if (!client) return;
      AcquireOptions options;
      options.cancel = over.get_token();
      options.on_queued = [&](std::uint32_t) { ++queued; };
      (void)client->mutex("quiet").acquire(options);
    });
  }
  const auto patience = Clock::now() + 10s;
  while (queued < kWaiters && Clock::now() < patience) std::this_thread::sleep_for(10ms);
  // The first heartbeat of a client also makes the connection for it.
  std::this_thread::sleep_for(1500ms);
  RawConnection connection(RedisRig::instance()->port());
  connection.ask({"CONFIG", "RESETSTAT"});
  std::this_thread::sleep_for(kFor);
  auto counts = command_counts(connection);
  over.request_stop();
  for (std::thread& waiter : waiters) waiter.join();
  const double scripts = counts["evalsha"] + counts["eval"];
  double other = 0;
  for (const auto& [name, calls] : counts) {
    // The calls of a renewal's script, and those of this bench itself.
    static const std::string kOfScripts =
        " evalsha eval time get set del hget hset hlen pexpire "
        "expire zadd zscore zrange zrangebyscore zrank zcard "
        "zcount zrem hdel config|resetstat info ping exists ";
    if (kOfScripts.find(" " + name + " ") == std::string::npos) other += calls;
  }
  state.counters["scripts_per_waiter_s"] =
      scripts / kWaiters / std::chrono::duration<double>(kFor).count();
  state.counters["pings_per_waiter_s"] =
      counts["ping"] / kWaiters / std::chrono::duration<double>(kFor).count();
  state.counters["other_commands"] = other;
  return queued == kWaiters;
}

void hand_over(benchmark::State& state) {
  if (no_server(state)) return;
  Baton baton;
  pin(RedisRig::instance()->pid(), 0);
  pin(0, 1);
  for (auto _ : state) {
    std::vector<std::thread> threads;
    threads.reserve(kWaiters + 1);
    for (int i = 0; i < kWaiters + 1; ++i) threads.emplace_back([&] { take_turns(baton); });
    for (std::thread& thread : threads) thread.join();
    pin(RedisRig::instance()->pid(), -1);
    pin(0, -1);
    if (baton.failed) return state.SkipWithError("a handoff failed");
    state.SetIterationTime(median(baton.handed) / 1e6);
  }
  state.counters["handoff_us_p50"] = median(baton.handed);
  state.counters["handoff_us_p99"] = percentile(baton.handed, 0.99);
  state.counters["round_trip_us_p50"] = median(baton.raw);
  state.counters["round_trip_again_us_p50"] = median(baton.raw_again);
  state.counters["round_trips"] = median(baton.handed) / median(baton.raw);  // To be 2 at most.
}

void Handoff(benchmark::State& state) { hand_over(state); }
BENCHMARK(Handoff)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

void HandoffWithoutPushReader(benchmark::State& state) {
  stores::use_push_reader(false);
  hand_over(state);
  stores::use_push_reader(true);
}
BENCHMARK(HandoffWithoutPushReader)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

void Waiting(benchmark::State& state) {
  if (no_server(state)) return;
  for (auto _ : state) {
    if (!count_commands(state)) return state.SkipWithError("not all came to wait");
    state.SetIterationTime(1);
  }
}
BENCHMARK(Waiting)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

// --- A crowd of asynchronous waiters.

class Crowd {
 public:
  Crowd(const Client& client, std::string name, int size)
      : mutex_(client.mutex(std::move(name))), size_(size) {}

  // All wait, but for one that holds.
  bool gather() {
    for (int i = 0; i <= size_; ++i) ask();
    io_.run_for(std::chrono::milliseconds(1));
    // The last one in line knows when all are in.
    std::atomic<bool> all_in = false;
    AcquireOptions options;
    options.on_queued = [&](std::uint32_t ahead) {
      all_in = ahead >= static_cast<std::uint32_t>(size_);
    };
    ask(options);
    const auto patience = Clock::now() + 60s;
    while (!all_in && !failed_ && Clock::now() < patience) {
      io_.restart();
      io_.run_for(20ms);
    }
    return all_in && held_.has_value();
  }

  // Microseconds of each.
  std::vector<double> pass_on(int times) {
    handed_.clear();
    left_ = times;
    give();
    while (left_ > 0 && !failed_) {
      io_.restart();
      io_.run_one_for(10s);
    }
    return failed_ ? std::vector<double>() : handed_;
  }

  void disband(Client& client) {
    over_ = true;
    held_.reset();
    (void)client.close(60s);
    io_.restart();
    io_.run_for(30s);
  }

 private:
  void ask(const AcquireOptions& options = AcquireOptions()) {
    async_acquire(mutex_, options, asio::bind_executor(io_, [this](Result<Lease> lease) {
                    const double micros = micros_since(given_);
                    if (over_) return;
                    if (!lease) {
                      std::fprintf(stderr, "%s\n", lease.error().message().c_str());
                      failed_ = true;
                      return;
                    }
                    held_ = *std::move(lease);
                    if (left_ == 0) return;
                    handed_.push_back(micros);
                    if (--left_ > 0) give();
                  }));
  }
  void give() {
    given_ = Clock::now();
    async_release(*held_, asio::bind_executor(io_, [this](const Result<void>& released) {
      if (!released && !over_) failed_ = true;
    }));
    ask();
  }

  asio::io_context io_{1};
  Mutex mutex_;
  const int size_;
  std::optional<Lease> held_;
  Clock::time_point given_{};
  std::vector<double> handed_;
  int left_ = 0;
  bool failed_ = false;
  bool over_ = false;
};

void HandoffInACrowd(benchmark::State& state) {
  if (no_server(state)) return;
  const std::string url = RedisRig::instance()->url();
  constexpr int kTurns = 5;
  constexpr int kPasses = 200;
  for (auto _ : state) {
    auto one = Client::connect(url);
    auto other = Client::connect(url);
    if (!one || !other) return state.SkipWithError("no connection");
    Crowd few(*one, "few", 16);
    Crowd many(*other, "many", 10'000);
    if (!few.gather() || !many.gather()) return state.SkipWithError("not all came to wait");
    std::vector<double> of_few, of_many;
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto a = few.pass_on(kPasses);
      const auto b = many.pass_on(kPasses);
      if (a.empty() || b.empty()) return state.SkipWithError("a handoff failed");
      of_few.insert(of_few.end(), a.begin(), a.end());
      of_many.insert(of_many.end(), b.begin(), b.end());
    }
    few.disband(*one);
    many.disband(*other);
    state.SetIterationTime(median(of_many) / 1e6);
    state.counters["of_16_us_p50"] = median(of_few);
    state.counters["of_10000_us_p50"] = median(of_many);
    state.counters["of_16_us_p99"] = percentile(of_few, 0.99);
    state.counters["of_10000_us_p99"] = percentile(of_many, 0.99);
    state.counters["ratio"] = median(of_many) / median(of_few);  // To be 2 at most.
  }
}
BENCHMARK(HandoffInACrowd)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

// --- Holding.

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void TenThousandRenewed(benchmark::State& state) {
  if (no_server(state)) return;
  constexpr int kLocks = 10'000;
  const char* text = std::getenv("HOLDFAST_BENCH_SECONDS");
  const std::chrono::seconds duration(text == nullptr ? 30 : std::atoi(text));
  auto client = Client::connect(RedisRig::instance()->url());
  if (!client) return state.SkipWithError(client.error().message().c_str());
  std::vector<Lease> leases;
  for (int i = 0; i < kLocks; ++i) {
    auto lease = client->mutex("held/" + std::to_string(i)).try_acquire();
    if (!lease || !*lease) return state.SkipWithError("a free lock was not granted");
    leases.push_back(*std::move(*lease));
  }
  RawConnection connection(RedisRig::instance()->port());
  for (auto _ : state) {
    connection.ask({"CONFIG", "RESETSTAT"});
    const double before = cpu_seconds();
    std::this_thread::sleep_for(duration);
    const double used = cpu_seconds() - before;
    auto counts = command_counts(connection);
    state.SetIterationTime(static_cast<double>(duration.count()));
    state.counters["core_percent"] = 100 * used / static_cast<double>(duration.count());  // < 5.
    state.counters["scripts"] = counts["evalsha"];
  }
  int lost = 0;
  for (const Lease& lease : leases) lost += lease.held() ? 0 : 1;
  state.counters["lost"] = lost;
  if (lost > 0) state.SkipWithError("leases were lost");
  leases.clear();
  if (!client->close(30s)) state.SkipWithError("close did not finish");
}
BENCHMARK(TenThousandRenewed)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace holdfast::bench
