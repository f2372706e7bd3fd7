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
// Handoff: two clients with a thread each in a blocking acquire() want one name on SQLite. From the
//   call of release() to the other one's return from acquire(), p50, beside a round trip, an
//   fdatasync and a push, which is taken for half a round trip. No other commit is under way then.
// TakeOver: three servers on three etcd members. From the kill (or the SIGTERM) of the one that
//   leads until a client has a lock that it asked for at that moment, beside the lease of
//   leadership.
// HeldLocks: 100,000 leases of 30 s, while nothing happens but their renewal.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
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

// A service on SQLite, and beside it what a pair is made of: a round trip and a forced write.
class Parts {
 public:
  Parts() : disk_(folder()), server_({.journal = disk_.empty() ? "" : "sqlite:" + disk_}) {
    const std::string beside = (disk_.empty() ? server_.data() : disk_) + "/../beside";
    file_ = ::open(beside.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file_ < 0) throw std::runtime_error("no file beside the journal");
    ::unlink(beside.c_str());
    connection_.emplace(server_.port());
    connection_->round_trip(ServiceTraffic().greeting());
  }
  ~Parts() { ::close(file_); }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  const support::HoldfastServer& server() const { return server_; }
  RawConnection& connection() { return *connection_; }

  void measure() {
    const std::string ping = request({"PING"});
    trips_.push_back(p50_us([&] { connection_->round_trip(ping); }));
    syncs_.push_back(p50_us([&] {
      const char bytes[512] = {};
      if (::pwrite(file_, bytes, sizeof bytes, 0) < 0 || ::fdatasync(file_) != 0) {
        throw std::runtime_error("a forced write failed");
      }
    }));
  }
  double trip() const { return median(trips_); }
  double sync() const { return median(syncs_); }
  void tell(benchmark::State& state) const {
    state.counters["round_trip_us"] = trip();
    state.counters["fdatasync_us"] = sync();
  }

 private:
  // A journal of an earlier run would take these requests for late ones.
  static std::string folder() {
    const char* const disk = std::getenv("HOLDFAST_BENCH_FOLDER");
    if (disk == nullptr) return {};
    std::string folder = std::string(disk) + "/server_bench";
    std::filesystem::remove_all(folder);
    return folder;
  }

  const std::string disk_;
  support::HoldfastServer server_;
  int file_ = -1;
  std::optional<RawConnection> connection_;
  std::vector<double> trips_, syncs_;
};

// The pair to be at most two round trips and two fdatasync.
void OneCaller(benchmark::State& state) {
  if (const auto why = support::HoldfastServer::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  Parts parts;
  const ServiceTraffic service;
  std::uint64_t pair = 0;
  bool good = true;
  std::vector<double> pairs;
  for (auto _ : state) {
    for (int block = 0; block < kBlocks && good; ++block) {
      pairs.push_back(p50_us([&] {
        RawConnection& wire = parts.connection();
        good = good && service.granted(wire.round_trip(service.acquire(0, ++pair)));
        good = good && service.released(wire.round_trip(service.release(0, pair)));
      }));
      parts.measure();
    }
    state.SetIterationTime(median(pairs) / 1e6);
  }
  if (!good) return state.SkipWithError("a pair failed");
  state.counters["pair_us"] = median(pairs);
  parts.tell(state);
  state.counters["of_allowed"] = median(pairs) / (2 * parts.trip() + 2 * parts.sync());
}
BENCHMARK(OneCaller)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

// Two who hand one lock to each other. Each holds it until the other one waits.
class Baton {
 public:
  explicit Baton(std::string url) : url_(std::move(url)) {}

  void run(int handoffs) {
    left_ = handoffs;
    std::jthread other([this] { take_turns(); });
    take_turns();
  }
  std::vector<double> times;  // Microseconds.
  std::atomic<bool> failed = false;

 private:
  void take_turns() {
    auto client = Client::connect(url_);
    if (!client) return give_up();
    while (!failed && left_ > 0) {
      auto lease = client->mutex("hot").acquire({.wait = std::chrono::seconds(30)});
      const auto now = Clock::now();
      if (!lease) return give_up();
      const std::lock_guard lock(mutex_);  // For the analysis of races: the lock does it.
      if (released_ != Clock::time_point{}) {
        times.push_back(std::chrono::duration<double, std::micro>(now - released_).count());
        --left_;
      }
      released_ = {};
      if (left_ > 0) {
        if (!support::eventually([&] { return failed || queued(*client); })) return give_up();
        // When it is granted, the other one's place in the queue is committed, too.
        if (!client->mutex("beside").acquire()) return give_up();
        released_ = Clock::now();
      }
      if (!lease->release()) return give_up();
    }
  }
  static bool queued(const Client& client) {
    const auto info = client.inspect("hot");
    return info && *info && (*info)->waiters.size() == 1;
  }
  void give_up() { failed = true; }

  const std::string url_;
  std::mutex mutex_;
  Clock::time_point released_{};
  std::atomic<int> left_ = 0;
};

// To be at most a round trip, a commit and a push.
void Handoff(benchmark::State& state) {
  if (const auto why = support::HoldfastServer::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  Parts parts;
  Baton baton(parts.server().url());
  for (auto _ : state) {
    for (int block = 0; block < kBlocks && !baton.failed; ++block) {
      baton.run(kPerBlock / 10);
      parts.measure();
    }
    state.SetIterationTime(median(baton.times) / 1e6);
  }
  if (baton.failed) return state.SkipWithError("a handoff failed");
  state.counters["handoff_us_p50"] = median(baton.times);
  state.counters["handoff_us_p99"] = percentile(baton.times, 0.99);
  parts.tell(state);
  state.counters["of_allowed"] = median(baton.times) / (1.5 * parts.trip() + parts.sync());
}
BENCHMARK(Handoff)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

#ifdef HOLDFAST_HAVE_ETCD
// The lease of leadership has so many seconds.
constexpr int kLead = 5;

class Cluster {
 public:
  Cluster() : etcd_({.members = 3}) {
    for (int i = 0; i < 3; ++i) {
      servers_.push_back(std::make_unique<support::HoldfastServer>(support::HoldfastOptions{
          .journal = etcd_.url("/over?leadership=" + std::to_string(kLead) + "s"),
          .arguments = {"--shards", "1"}}));
    }
  }
  std::string url() const {
    std::string all;
    for (const auto& each : servers_) {
      all += (all.empty() ? "holdfast://127.0.0.1:" : ",127.0.0.1:") + std::to_string(each->port());
    }
    return all + "?open_timeout=60s";
  }
  support::HoldfastServer& leader() {
    support::HoldfastServer* found = nullptr;
    support::eventually([&] {
      for (const auto& each : servers_) {
        if (each->running() && each->leads()) found = each.get();
      }
      return found != nullptr;
    });
    if (found == nullptr) throw std::runtime_error("no server leads");
    return *found;
  }

 private:
  const support::EtcdCluster etcd_;
  std::vector<std::unique_ptr<support::HoldfastServer>> servers_;
};

// After a kill to be at most the lease of leadership and a second. A lease of `ttl` is held all the
// while, and is not to be lost.
void take_over(benchmark::State& state, std::chrono::milliseconds ttl,
               int (*end)(support::HoldfastServer& server)) {
  if (const auto why = support::EtcdCluster::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  Cluster cluster;
  std::vector<double> times;
  int lost = 0;
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      support::HoldfastServer& leads = cluster.leader();
      auto client = Client::connect(cluster.url());
      if (!client) return state.SkipWithError(client.error().message().c_str());
      const std::string name = "over/" + std::to_string(round);
      const auto held = client->mutex(name + "/held").acquire({.ttl = ttl});
      if (!held) return state.SkipWithError(held.error().message().c_str());
      const auto begin = Clock::now();
      const std::jthread ending([&] { end(leads); });
      const auto lease = client->mutex(name).acquire({.wait = std::chrono::seconds(60)});
      if (!lease) return state.SkipWithError(lease.error().message().c_str());
      times.push_back(seconds_since(begin));
      lost += held->held() ? 0 : 1;
    }
    state.SetIterationTime(median(times));
  }
  state.counters["ttl_s"] = std::chrono::duration<double>(ttl).count();
  state.counters["leases_lost"] = lost;
  state.counters["leadership_s"] = kLead;
  state.counters["seconds_p50"] = median(times);
  state.counters["seconds_max"] = percentile(times, 1);
  state.counters["beyond_leadership_s"] = percentile(times, 1) - kLead;
}

void TakeOverAfterKill(benchmark::State& state) {
  take_over(state, std::chrono::seconds(9), [](support::HoldfastServer& server) {
    server.kill9();
    server.start();
    return 0;
  });
}
BENCHMARK(TakeOverAfterKill)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

void TakeOverAfterSigterm(benchmark::State& state) {
  take_over(state, std::chrono::seconds(1), [](support::HoldfastServer& server) {
    const int status = server.terminate();
    server.start();
    return status;
  });
}
BENCHMARK(TakeOverAfterSigterm)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);
#endif

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
