// The lock service beside a Redis without persistence, over the same number of plain connections.
//
// Pairs: one thread drives N connections, each of which takes and gives back a lock of its own,
//   again and again, one request at a time. The service runs as `holdfast serve` with a SQLite
//   journal, with one in three etcd members, or with one in memory. Redis runs the shortest safe
//   pair of scripts (redis_rig.h). The two take turns; each figure is the median of the rounds, a
//   ratio the median of the rounds' ratios. `spread`: highest minus lowest of the rounds, by the
//   median.
// OneCaller: p50 of a blocking pair on one connection, beside two PINGs and two fdatasync of a file
//   beside the journal.
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/figures.h"
#include "bench/redis_rig.h"
#include "tests/support/etcd_server.h"
#include "tests/support/holdfast_server.h"
#include "tests/support/loopback.h"

namespace holdfast::bench {
namespace {

constexpr int kRounds = 7;
constexpr std::chrono::milliseconds kRound{1'000};
constexpr std::string_view kOwner =
    R"({"owner":"host/12345/0123456789ab","host":"host","pid":12345,"program":"server_bench",)"
    R"("since_unix_ms":1700000000000})";

// The words of a pair: a number grows with each pair of a connection.
class Traffic {
 public:
  virtual ~Traffic() = default;
  virtual std::string greeting() const { return {}; }
  virtual std::string acquire(int connection, std::uint64_t pair) const = 0;
  virtual std::string release(int connection, std::uint64_t pair) const = 0;
  virtual bool granted(std::string_view reply) const = 0;
  virtual bool released(std::string_view reply) const = 0;
};

std::string digits(std::uint64_t number, std::size_t width) {
  std::string text = std::to_string(number);
  return std::string(width - std::min(width, text.size()), '0') + text;
}

class ServiceTraffic final : public Traffic {
 public:
  std::string greeting() const override { return request({"HF1", "attach", "0"}); }
  std::string acquire(int connection, std::uint64_t pair) const override {
    return request({"HF1", "acquire", "1", key(connection), client(connection),
                    id(connection, pair), digits(pair, 16), "30000000", kOwner,
                    "Pe 1 1 1 5000000 0 -"});
  }
  std::string release(int connection, std::uint64_t pair) const override {
    return request({"HF1", "end", "1", key(connection), client(connection), id(connection, pair),
                    digits(pair, 16), "release"});
  }
  bool granted(std::string_view reply) const override {
    return reply.find("\r\nheld ") != reply.npos;
  }
  bool released(std::string_view reply) const override {
    return reply.find("released") != reply.npos;
  }

 private:
  static std::string key(int connection) {
    return "hf1:{bench/" + std::to_string(connection) + "}";
  }
  static std::string client(int connection) {
    return digits(static_cast<std::uint64_t>(connection), 15);
  }
  static std::string id(int connection, std::uint64_t pair) {
    return digits(static_cast<std::uint64_t>(connection) + 1, 16) + digits(pair, 16);
  }
};

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

// Whether the bytes are a whole reply: a line, or a line and a text of the length that it tells.
bool whole(std::string_view reply) {
  const std::size_t line = reply.find("\r\n");
  if (line == reply.npos) return false;
  if (reply[0] != '$') return true;
  return reply.size() >= line + 4 + static_cast<std::size_t>(std::atol(reply.data() + 1));
}

// N connections of one server, driven by one thread.
class Drivers {
 public:
  Drivers(std::uint16_t port, int connections, const Traffic& traffic)
      : traffic_(traffic), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (int i = 0; i < connections && good_; ++i) {
      Driver& driver = drivers_.emplace_back();
      driver.fd = support::connect_to_loopback(port);
      epoll_event event{.events = EPOLLIN, .data = {.u32 = static_cast<std::uint32_t>(i)}};
      good_ = driver.fd >= 0 && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, driver.fd, &event) == 0;
    }
    const std::string hello = traffic.greeting();
    for (Driver& each : drivers_) {
      if (hello.empty() || !good_) continue;
      send(each, hello);
      char bytes[256];
      while (good_ && ::read(each.fd, bytes, sizeof bytes) <= 0) good_ = errno == EAGAIN;
    }
  }
  ~Drivers() {
    for (const Driver& each : drivers_) ::close(each.fd);
    ::close(epoll_);
  }
  Drivers(const Drivers&) = delete;
  Drivers& operator=(const Drivers&) = delete;

  // Pairs per second; 0: something failed.
  double run() {
    pairs_ = 0;
    stopping_ = false;
    busy_ = drivers_.size();
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < drivers_.size(); ++i) begin_pair(i);
    std::vector<epoll_event> events(drivers_.size());
    while (good_ && busy_ > 0) {
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 5'000);
      good_ = count > 0;
      for (int i = 0; i < count && good_; ++i) {
        on_readable(events[static_cast<std::size_t>(i)].data.u32);
      }
      stopping_ = Clock::now() - begin >= kRound;
    }
    return good_ ? static_cast<double>(pairs_) / seconds_since(begin) : 0;
  }

 private:
  struct Driver {
    int fd = -1;
    std::uint64_t pair = 0;
    bool holds = false;
    std::string reply;
  };

  // A socket that is not connected yet, or full, is rare: wait for it.
  void send(const Driver& driver, const std::string& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size() && good_) {
      const ssize_t done = ::write(driver.fd, bytes.data() + sent, bytes.size() - sent);
      if (done > 0) sent += static_cast<std::size_t>(done);
      if (done < 0) good_ = errno == EAGAIN || errno == ENOTCONN;
    }
  }
  void begin_pair(std::size_t index) {
    Driver& driver = drivers_[index];
    driver.holds = false;
    send(driver, traffic_.acquire(static_cast<int>(index), ++driver.pair));
  }
  void on_readable(std::size_t index) {
    Driver& driver = drivers_[index];
    char bytes[4096];
    const ssize_t got = ::read(driver.fd, bytes, sizeof bytes);
    if (got <= 0) {
      good_ = got < 0 && errno == EAGAIN;
      return;
    }
    driver.reply.append(bytes, static_cast<std::size_t>(got));
    if (!whole(driver.reply)) return;
    const bool fine =
        driver.holds ? traffic_.released(driver.reply) : traffic_.granted(driver.reply);
    if (!fine) {
      std::fprintf(stderr, "unexpected: %s\n", driver.reply.c_str());
      good_ = false;
      return;
    }
    driver.reply.clear();
    if (!std::exchange(driver.holds, !driver.holds)) {
      return send(driver, traffic_.release(static_cast<int>(index), driver.pair));
    }
    ++pairs_;
    stopping_ ? static_cast<void>(--busy_) : begin_pair(index);
  }

  const Traffic& traffic_;
  const int epoll_;
  std::vector<Driver> drivers_;
  bool good_ = true;
  bool stopping_ = false;
  std::size_t busy_ = 0;
  std::uint64_t pairs_ = 0;
};

void compare(benchmark::State& state, const support::HoldfastOptions& options) {
  RedisRig* const rig = RedisRig::instance();
  if (rig == nullptr) return state.SkipWithError("no redis-server");
  if (const auto why = support::HoldfastServer::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  state.SetLabel(rig->version());
  const auto callers = static_cast<int>(state.range(0));
  support::HoldfastServer server(options);
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

// To be 1.0, 1.1 and 1.2 of Redis at least.
void PairsOnSqlite(benchmark::State& state) { compare(state, {}); }
BENCHMARK(PairsOnSqlite)
    ->Arg(64)->Arg(256)->Arg(1024)
    ->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

// To be 0.6 of Redis at 256 callers, and 0.9 at 1,024.
void PairsOnEtcd(benchmark::State& state) {
  if (const auto why = support::EtcdCluster::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  const support::EtcdCluster etcd({.members = 3});
  compare(state, {.journal = etcd.url("/bench")});
}
BENCHMARK(PairsOnEtcd)
    ->Arg(64)->Arg(256)->Arg(1024)
    ->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

// To be 1.0 of Redis at least.
void PairsInMemory(benchmark::State& state) { compare(state, {.in_memory = true}); }
BENCHMARK(PairsInMemory)
    ->Arg(64)->Arg(256)->Arg(1024)
    ->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

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

// The pair to be at most two round trips and two fdatasync.
void OneCaller(benchmark::State& state) {
  if (const auto why = support::HoldfastServer::unavailable()) {
    return state.SkipWithError(why->c_str());
  }
  support::HoldfastServer server;
  const ServiceTraffic service;
  RawConnection connection(server.port());
  connection.round_trip(service.greeting());
  const std::string ping = request({"PING"});
  const std::string beside = server.data() + "/../beside";
  const int file = ::open(beside.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  std::uint64_t pair = 0;
  bool good = file >= 0;
  std::vector<double> pairs, trips, syncs;
  for (auto _ : state) {
    for (int block = 0; block < kBlocks && good; ++block) {
      pairs.push_back(p50_us([&] {
        good = good && service.granted(connection.round_trip(service.acquire(0, ++pair)));
        good = good && service.released(connection.round_trip(service.release(0, pair)));
      }));
      trips.push_back(p50_us([&] { connection.round_trip(ping); }));
      syncs.push_back(p50_us([&] {
        const char bytes[512] = {};
        good = good && ::pwrite(file, bytes, sizeof bytes, 0) > 0 && ::fdatasync(file) == 0;
      }));
    }
    state.SetIterationTime(median(pairs) / 1e6);
  }
  ::close(file);
  if (!good) return state.SkipWithError("a pair failed");
  state.counters["pair_us"] = median(pairs);
  state.counters["round_trip_us"] = median(trips);
  state.counters["fdatasync_us"] = median(syncs);
  state.counters["of_allowed"] = median(pairs) / (2 * median(trips) + 2 * median(syncs));
}
BENCHMARK(OneCaller)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace holdfast::bench

BENCHMARK_MAIN();
