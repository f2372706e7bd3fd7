// How many commands per second one client gets through: the pipeline and the direct link against
// what redis-benchmark reaches on the same server in the same run.
//
// Starts a redis-server of its own on a private port; HOLDFAST_BENCH_REDIS names another program.
// Without one every benchmark says so and is skipped.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <benchmark/benchmark.h>

#include "src/stores/redis/direct_link.h"
#include "src/stores/redis/pipeline.h"

namespace {

using namespace std::chrono_literals;
using holdfast::Result;
using holdfast::base::BootClock;
using namespace holdfast::stores::redis;

constexpr int kInFlight = 256;

class Server {
 public:
  static Server& instance() {
    static Server server;
    return server;
  }

  bool running() const { return pid_ > 0; }
  std::string port() const { return std::to_string(port_); }
  RemotePtr remote() const {
    RedisAddress address;
    address.port = port_;
    return *Remote::make(address);
  }
  std::string sha() const { return sha_; }

  std::string ask(const std::vector<std::string_view>& args) const {
    DirectLink link(remote());
    std::string wire;
    append_command(wire, args);
    auto replies = link.try_take()->call(wire, 1, BootClock::now() + 5s);
    return replies ? replies->at(0).text : "";
  }

 private:
  Server() {
    const char* named = std::getenv("HOLDFAST_BENCH_REDIS");
    const std::string program = named == nullptr ? "redis-server" : named;
    port_ = static_cast<std::uint16_t>(20000 + ::getpid() % 20000);
    const std::string port = std::to_string(port_);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      std::freopen("/dev/null", "w", stdout);
      ::execlp(program.c_str(), program.c_str(), "--port", port.c_str(), "--bind", "127.0.0.1",
               "--save", "", "--appendonly", "no", nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 200 && ask({"PING"}) != "PONG"; ++i) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return;
      }
      std::this_thread::sleep_for(10ms);
    }
    sha_ = ask({"SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"});
  }
  ~Server() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  std::string sha_;
};

bool no_server(benchmark::State& state) {
  if (Server::instance().running()) return false;
  state.SkipWithError("no redis-server");
  return true;
}

std::string ping() {
  std::string wire;
  const std::string_view args[] = {"PING"};
  append_command(wire, args);
  return wire;
}

std::string script_call() {
  std::string wire;
  const std::string sha = Server::instance().sha();
  const std::string_view args[] = {"EVALSHA", sha, "1", "bench:counter"};
  append_command(wire, args);
  return wire;
}

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
  Pipeline pipe(loop.io, Server::instance().remote());
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
  Pipeline pipe(loop.io, Server::instance().remote());
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
  Pipeline pipe(loop.io, Server::instance().remote());
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

class RawSocket {
 public:
  RawSocket() {
    const int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    const Endpoint peer = Server::instance().remote()->resolver->cached().at(0);
    good_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&peer.address), peer.length) == 0;
  }
  ~RawSocket() { ::close(fd_); }

  bool round_trip(const std::string& wire) {
    char answer[64];
    return good_ && ::send(fd_, wire.data(), wire.size(), 0) > 0 &&
           ::recv(fd_, answer, sizeof answer, 0) > 0;
  }

 private:
  const int fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  bool good_ = false;
};

double p50_us(std::vector<double>& times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// One round trip each in turn, so that both see the same machine.
void direct_link_against_raw_socket(benchmark::State& state) {
  if (no_server(state)) return;
  DirectLink link(Server::instance().remote());
  RawSocket raw;
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
    const bool good = timed(of_raw, [&] { return raw.round_trip(wire); }) && timed(of_link, [&] {
                        return link.try_take()->call(wire, 1, BootClock::now() + 10s).has_value();
                      });
    if (!good) state.SkipWithError("a round trip failed");
  }
  state.counters["raw_p50_us"] = p50_us(of_raw);
  state.counters["link_p50_us"] = p50_us(of_link);
  state.counters["ratio"] = p50_us(of_link) / p50_us(of_raw);
}
BENCHMARK(direct_link_against_raw_socket)->UseRealTime();

// redis-benchmark against the same server; its own report is what counts.
void redis_benchmark(benchmark::State& state, const std::string& options,
                     const std::string& command) {
  if (no_server(state)) return;
  const Server& server = Server::instance();
  const std::string line = "redis-benchmark -h 127.0.0.1 -p " + server.port() + " --csv " +
                           options + " " + command + " 2>/dev/null";
  double per_second = 0;
  for (auto _ : state) {
    FILE* pipe = ::popen(line.c_str(), "r");
    std::array<char, 512> text{};
    while (pipe != nullptr && std::fgets(text.data(), text.size(), pipe) != nullptr) {
      // "PING_INLINE","98039.22",...
      const std::string row(text.data());
      const auto comma = row.find("\",\"");
      if (comma != std::string::npos) per_second = std::atof(row.c_str() + comma + 3);
    }
    if (pipe == nullptr || ::pclose(pipe) != 0) {
      state.SkipWithError("no redis-benchmark");
      return;
    }
  }
  state.counters["items_per_second"] = per_second;
}
void redis_benchmark_ping(benchmark::State& state) {
  redis_benchmark(state, "-c 16 -P 16 -n 400000", "PING");
}
void redis_benchmark_script(benchmark::State& state) {
  redis_benchmark(state, "-c 16 -P 16 -n 300000",
                  "EVALSHA " + Server::instance().sha() + " 1 bench:counter");
}
BENCHMARK(redis_benchmark_ping)->Iterations(1)->UseRealTime();
BENCHMARK(redis_benchmark_script)->Iterations(1)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
