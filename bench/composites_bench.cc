// Stores made of stores against the store that decides alone, in the same run: what hybrid costs
// over its arbiter, and fail-over over the first store of its chain, while nobody contends.
//
//   OneCaller     a thread acquires and releases one lock; microseconds of a pair. `of_alone` is
//                 the median of the rounds' ratios. Aim: at most 1.2.
//   AsyncCaller   the same by asynchronous calls.
//   64Callers     as many threads, each with a lock of its own; pairs per second. `of_alone`: Aim:
//                 at least 0.83.
//
// Both sides are clients of this process, and take turns. The servers are those of the tests.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <asio/bind_executor.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <benchmark/benchmark.h>

#include "bench/figures.h"
#include "holdfast/asio.h"
#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "tests/support/etcd_server.h"
#include "tests/support/redis_server.h"
#include "tests/support/url_text.h"
#ifdef HOLDFAST_HAVE_ZOOKEEPER
#include "tests/support/zookeeper_server.h"
#endif

namespace holdfast::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kCallers = 64;

Client connect(const std::string& url) {
  auto client = Client::connect(url);
  if (!client) {
    std::fprintf(stderr, "%s: %s\n", url.c_str(), client.error().message().c_str());
    std::exit(1);
  }
  return *std::move(client);
}

// The same by asynchronous calls, of which each begins when the one before has ended.
struct AsyncCaller {
  Mutex mutex;
  int left;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);

  void next() {
    if (left-- <= 0) return work.reset();
    async_acquire(mutex, AcquireOptions{.wait = 60s},
                  asio::bind_executor(io, [this](Result<Lease> got) {
                    if (!got) return failed(got.error());
                    async_release(*got, asio::bind_executor(io, [this](const Result<void>& done) {
                                    done ? next() : failed(done.error());
                                  }));
                  }));
  }
  void failed(const Error& why) {
    std::fprintf(stderr, "an asynchronous pair: %s\n", why.message().c_str());
    work.reset();
  }
};

double async_pair_us(const Client& client, int pairs) {
  AsyncCaller caller{client.mutex("alone"), pairs};
  const auto begin = Clock::now();
  caller.next();
  caller.io.run();
  return micros_since(begin) / pairs;
}

// 0: one failed.
double pair_us(const Client& client, int pairs) {
  Mutex mutex = client.mutex("alone");
  const auto begin = Clock::now();
  for (int i = 0; i < pairs; ++i) {
    auto lease = mutex.acquire({.wait = 60s});
    if (!lease || !lease->release()) {
      std::fprintf(stderr, "pair: %s\n", lease ? "lost" : lease.error().message().c_str());
      return 0;
    }
  }
  return micros_since(begin) / pairs;
}

double pairs_per_second(const Client& client, int pairs) {
  std::atomic<int> left{pairs};
  std::vector<std::thread> callers;
  const auto begin = Clock::now();
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      Mutex mutex = client.mutex("caller-" + std::to_string(caller));
      while (left.fetch_sub(1) > 0) {
        auto lease = mutex.acquire({.wait = 60s});
        if (!lease || !lease->release()) std::fprintf(stderr, "a pair failed\n");
      }
    });
  }
  for (auto& each : callers) each.join();
  return pairs / seconds_since(begin);
}

// The servers, the store that decides, and the store made of it and another one.
struct Pair {
  std::shared_ptr<void> servers;
  std::string alone;
  std::string composite;
};

std::string hybrid_of(const std::string& filter, const std::string& arbiter) {
  return "hybrid:?filter=" + support::percent_encoded(filter) +
         "&arbiter=" + support::percent_encoded(arbiter);
}

struct RedisAndEtcd {
  support::RedisServer redis;
  support::EtcdCluster etcd;
};

Pair hybrid_on_etcd() {
  auto servers = std::make_shared<RedisAndEtcd>();
  const std::string arbiter = servers->etcd.url("/hybrid?session=6s");
  return {servers, servers->etcd.url("/alone?session=6s"),
          hybrid_of(servers->redis.url(), arbiter)};
}

Pair failover_on_redis() {
  auto servers = std::make_shared<RedisAndEtcd>();
  const std::string chain =
      "failover:?authority=2s&chain=" + support::percent_encoded(servers->redis.url()) +
      "&chain=" + support::percent_encoded(servers->etcd.url("/chain?session=6s"));
  return {servers, servers->redis.url(), chain};
}

using Make = std::function<Pair()>;
using Figure = std::function<double(const Client&)>;

void compare(benchmark::State& state, const Make& make, const char* unit, const Figure& figure) {
  for (const auto& why_not :
       {support::RedisServer::unavailable(), support::EtcdCluster::unavailable()}) {
    if (why_not) return state.SkipWithError(("SKIPPED: " + *why_not).c_str());
  }
  const Pair pair = make();
  const Client alone = connect(pair.alone);
  const Client composite = connect(pair.composite);
  // A chain that is used for the first time waits for two leases.
  figure(alone);
  figure(composite);
  std::vector<double> alones;
  std::vector<double> composites;
  std::vector<double> ratios;
  for (auto _ : state) {
    alones.push_back(figure(alone));
    composites.push_back(figure(composite));
    ratios.push_back(composites.back() / alones.back());
  }
  state.counters[unit] = median(composites);
  state.counters[std::string("alone_") + unit] = median(alones);
  state.counters["of_alone"] = median(ratios);
}

void one_caller(benchmark::State& state, const Make& make, int pairs) {
  compare(state, make, "pair_us",
          [pairs](const Client& client) { return pair_us(client, pairs); });
}
void async_caller(benchmark::State& state, const Make& make, int pairs) {
  compare(state, make, "pair_us",
          [pairs](const Client& client) { return async_pair_us(client, pairs); });
}
void many_callers(benchmark::State& state, const Make& make, int pairs) {
  compare(state, make, "pairs",
          [pairs](const Client& client) { return pairs_per_second(client, pairs); });
}

void Hybrid_EtcdOneCaller(benchmark::State& state) { one_caller(state, hybrid_on_etcd, 200); }
void Hybrid_Etcd64Callers(benchmark::State& state) { many_callers(state, hybrid_on_etcd, 1000); }
void Failover_RedisOneCaller(benchmark::State& state) {
  one_caller(state, failover_on_redis, 3000);
}
void Failover_RedisAsyncCaller(benchmark::State& state) {
  async_caller(state, failover_on_redis, 3000);
}
void Failover_Redis64Callers(benchmark::State& state) {
  many_callers(state, failover_on_redis, 10'000);
}
BENCHMARK(Hybrid_EtcdOneCaller)->Iterations(9)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Hybrid_Etcd64Callers)->Iterations(5)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Failover_RedisOneCaller)->Iterations(9)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Failover_RedisAsyncCaller)->Iterations(9)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Failover_Redis64Callers)->Iterations(5)->UseRealTime()->Unit(benchmark::kMillisecond);

#ifdef HOLDFAST_HAVE_ZOOKEEPER
struct RedisAndZookeeper {
  support::RedisServer redis;
  support::ZookeeperServer zookeeper;
};

Pair hybrid_on_zookeeper() {
  auto servers = std::make_shared<RedisAndZookeeper>();
  const std::string arbiter = servers->zookeeper.url("/hybrid?session=6s");
  return {servers, servers->zookeeper.url("/alone?session=6s"),
          hybrid_of(servers->redis.url(), arbiter)};
}

void Hybrid_ZookeeperOneCaller(benchmark::State& state) {
  if (const auto why_not = support::ZookeeperServer::unavailable()) {
    return state.SkipWithError(("SKIPPED: " + *why_not).c_str());
  }
  one_caller(state, hybrid_on_zookeeper, 400);
}
BENCHMARK(Hybrid_ZookeeperOneCaller)->Iterations(9)->UseRealTime()->Unit(benchmark::kMillisecond);
#endif

}  // namespace
}  // namespace holdfast::bench
