// How many commands per second one client gets through: the pipeline and the direct link against
// what redis-benchmark reaches on the same server in the same run.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <benchmark/benchmark.h>

#include "bench/redis_rig.h"
#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/pipeline.h"

namespace {

using namespace std::chrono_literals;
using holdfast::Result;
using holdfast::base::BootClock;
using namespace holdfast::bench;
using namespace holdfast::stores::redis;

constexpr int kInFlight = 256;

bool no_server(benchmark::State& state) {
  if (RedisRig::instance() != nullptr) return false;
  state.SkipWithError("no redis-server");
  return true;
}

RemotePtr remote() {
  RedisAddress address;
  address.port = RedisRig::instance()->port();
  return *Remote::make(address);
}

std::string script() {
  static const std::string sha = RedisRig::instance()->load("return redis.call('INCR', KEYS[1])");
  return sha;
}

std::string ping() { return request({"PING"}); }
std::string script_call() { return request({"EVALSHA", script(), "1", "bench:counter"}); }

class Loop {
 public:
  Loop() : thread_([this] { io.run(); }) {}
  ~Loop() {
    work_.reset();
    thread_.join();
  }
  asio::io_context io{1};

 private:
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io);
  std::thread thread_;
};

// A counter that a client thread waits for.
class Window {
 public:
  void take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return used_ < kInFlight; });
    ++used_;
  }
  void give() {
    const std::lock_guard lock(mutex_);
    // Woken for half a window, not for each.
    if (--used_ == kInFlight / 2 || used_ == 0) changed_.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return used_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int used_ = 0;
};

// One client thread keeps 256 in flight.
void pipeline(benchmark::State& state, const std::string& wire) {
  if (no_server(state)) return;
  Loop loop;
  Pipeline pipe(loop.io, remote());
  Window window;
  std::atomic<int> failed = 0;
  const auto before = pipe.counts();
  for (auto _ : state) {
    for (int i = 0; i < 1000; ++i) {
      window.take();
      pipe.send({wire, false}, BootClock::now() + 10s, [&](const Result<Reply>& reply) {
        if (!reply || reply->is_error()) ++failed;
        window.give();
      });
    }
  }
  window.drain();
  const auto after = pipe.counts();
  state.SetItemsProcessed(state.iterations() * 1000);
  state.counters["per_write"] = static_cast<double>(after.commands - before.commands) /
                                static_cast<double>(after.writes - before.writes + 1);
  if (failed != 0) state.SkipWithError("a command failed");
  pipe.close();
}
void pipeline_ping(benchmark::State& state) { pipeline(state, ping()); }
void pipeline_script(benchmark::State& state) { pipeline(state, script_call()); }
BENCHMARK(pipeline_ping)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(pipeline_script)->UseRealTime()->MeasureProcessCPUTime();

// Each completion sends the next: no client thread at all, as coroutines on the loop do.
void pipeline_on_loop(benchmark::State& state) {
  if (no_server(state)) return;
  Loop loop;
  Pipeline pipe(loop.io, remote());
  const std::string wire = script_call();
  for (auto _ : state) {
    constexpr int kTotal = 20'000;
    std::atomic<int> left = kTotal;
    std::atomic<int> unfinished = kTotal;
    std::function<void()> next = [&] {
      if (left.fetch_sub(1) <= 0) return;
      pipe.send({wire, false}, BootClock::now() + 10s, [&](const Result<Reply>&) {
        next();
        if (unfinished.fetch_sub(1) == 1) unfinished.notify_all();
      });
    };
    for (int i = 0; i < kInFlight; ++i) next();
    for (int now = unfinished; now > 0; now = unfinished) unfinished.wait(now);
    state.SetItemsProcessed(state.items_processed() + kTotal);
  }
  pipe.close();
}
BENCHMARK(pipeline_on_loop)->UseRealTime()->MeasureProcessCPUTime();

// The same with a client thread that waits for each answer.
void pipeline_one_at_a_time(benchmark::State& state) {
  if (no_server(state)) return;
  Loop loop;
  Pipeline pipe(loop.io, remote());
  const std::string wire = ping();
  for (auto _ : state) {
    std::atomic<bool> done = false;
    pipe.send({wire, false}, BootClock::now() + 10s, [&](const Result<Reply>&) {
      done = true;
      done.notify_all();
    });
    done.wait(false);
  }
  pipe.close();
}
BENCHMARK(pipeline_one_at_a_time)->UseRealTime();

// One round trip each in turn, so that both see the same machine.
void direct_link_against_raw_socket(benchmark::State& state) {
  if (no_server(state)) return;
  DirectLink link(remote());
  RawConnection raw(RedisRig::instance()->port());
  const std::string wire = ping();
  std::vector<double> of_link;
  std::vector<double> of_raw;
  const auto timed = [](std::vector<double>& into, auto&& call) {
    const auto begin = std::chrono::steady_clock::now();
    const bool good = call();
    into.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
    return good;
  };
  for (auto _ : state) {
    const bool good =
        timed(of_raw, [&] { return !raw.round_trip(wire).empty(); }) && timed(of_link, [&] {
          return link.try_take()->call(wire, 1, BootClock::now() + 10s).has_value();
        });
    if (!good) state.SkipWithError("a round trip failed");
  }
  state.counters["raw_p50_us"] = median(of_raw);
  state.counters["link_p50_us"] = median(of_link);
  state.counters["ratio"] = median(of_link) / median(of_raw);
}
BENCHMARK(direct_link_against_raw_socket)->UseRealTime();

// redis-benchmark against the same server; its own report is what counts.
void reference(benchmark::State& state, const std::string& options,
               const std::vector<std::string>& words) {
  if (no_server(state)) return;
  for (auto _ : state) {
    const double per_second = redis_benchmark(options, words);
    state.counters["items_per_second"] = per_second;
    if (per_second == 0) state.SkipWithError("no redis-benchmark");
  }
}
void redis_benchmark_ping(benchmark::State& state) {
  reference(state, "-c 16 -P 16 -n 400000", {"PING"});
}
void redis_benchmark_script(benchmark::State& state) {
  if (no_server(state)) return;
  reference(state, "-c 16 -P 16 -n 300000", {"EVALSHA", script(), "1", "bench:counter"});
}
BENCHMARK(redis_benchmark_ping)->Iterations(1)->UseRealTime();
BENCHMARK(redis_benchmark_script)->Iterations(1)->UseRealTime();

}  // namespace
