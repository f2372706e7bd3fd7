// Holdfast's own driver of `make bench-peers`, by its public interface alone. The flags and the
// line it prints are described in bench/peers/README.md.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>

#include "holdfast/asio.h"
#include "holdfast/client.h"
#include "holdfast/mutex.h"

namespace {

using holdfast::Client;
using holdfast::Error;
using holdfast::Lease;
using holdfast::Result;
using Clock = std::chrono::steady_clock;

struct Flags {
  std::string lock = "threads";
  std::string mode = "own";
  std::string store;
  std::string prefix = "peer";
  int callers = 1;
  int count = 1;
  double seconds = 2;
  double warmup = 0.3;
  std::int64_t ttl_ms = 30'000;
};

enum class Phase : std::uint8_t { kWarming, kMeasuring, kOver };

struct Tally {
  std::vector<double> pairs;  // Microseconds of each.
  double longest = 0;
};

double micros(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  return 0;
}

void require(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message());
}

class Peer {
 public:
  explicit Peer(Flags flags) : flags_(std::move(flags)), client_(connect()) {
    how_.ttl = std::chrono::milliseconds(flags_.ttl_ms);
  }

  void measure() {
    tallies_.resize(static_cast<std::size_t>(flags_.callers));
    std::vector<std::jthread> threads;
    if (flags_.lock == "async") {
      for (int caller = 0; caller < flags_.callers; ++caller) begin(caller, 0);
      threads.emplace_back([this] { run([this] { io_.run(); }); });
    } else {
      for (int caller = 0; caller < flags_.callers; ++caller) {
        threads.emplace_back([this, caller] { run([this, caller] { call(caller); }); });
      }
    }
    sleep(flags_.warmup);
    const double before = processor_seconds();
    const auto begun = Clock::now();
    phase_ = Phase::kMeasuring;
    sleep(flags_.seconds);
    phase_ = Phase::kOver;
    const double used = processor_seconds() - before;
    const double elapsed = micros(Clock::now() - begun) / 1e6;
    threads.clear();
    report(elapsed, used);
  }

  // Takes `count` locks, says so, and keeps them until standard input is closed.
  void hold() {
    const std::int64_t before = resident_kib();
    std::vector<Lease> held;
    held.reserve(static_cast<std::size_t>(flags_.count));
    for (int i = 0; i < flags_.count; ++i) {
      held.push_back(client_.mutex(flags_.prefix + "-" + std::to_string(i)).acquire(how_).value());
    }
    std::printf("{\"held\": %d, \"rss_before_kib\": %lld, \"rss_kib\": %lld}\n", flags_.count,
                static_cast<long long>(before), static_cast<long long>(resident_kib()));
    std::fflush(stdout);
    std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  }

 private:
  Client connect() const {
    auto client = Client::connect(flags_.store);
    if (!client) throw std::runtime_error(client.error().message());
    return *client;
  }

  static void sleep(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

  // A caller that fails ends the measurement: the others' figures would say nothing.
  template <typename Work>
  void run(const Work& work) {
    try {
      work();
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "peer holdfast: %s\n", failure.what());
      std::_Exit(1);
    }
  }

  std::string name_of(int caller, std::int64_t pair) const {
    if (flags_.mode == "hot") return flags_.prefix + "-hot";
    std::string name = flags_.prefix + "-" + std::to_string(caller);
    if (flags_.mode == "new") name += "-" + std::to_string(pair);
    return name;
  }

  void add(int caller, Phase counted, Clock::time_point begun, Clock::time_point held) {
    if (counted != Phase::kMeasuring || phase_ != Phase::kMeasuring) return;
    Tally& tally = tallies_[static_cast<std::size_t>(caller)];
    tally.pairs.push_back(micros(Clock::now() - begun));
    tally.longest = std::max(tally.longest, micros(held - begun));
  }

  void call(int caller) {
    for (std::int64_t pair = 0; phase_ != Phase::kOver; ++pair) {
      const Phase counted = phase_;
      const auto begun = Clock::now();
      Lease lease = client_.mutex(name_of(caller, pair)).acquire(how_).value();
      const auto held = Clock::now();
      require(lease.release());
      add(caller, counted, begun, held);
    }
  }

  // The next pair of a chain of asynchronous calls.
  void begin(int caller, std::int64_t pair) {
    if (phase_ == Phase::kOver) return;
    const Phase counted = phase_;
    const auto begun = Clock::now();
    async_acquire(client_.mutex(name_of(caller, pair)), how_,
                  asio::bind_executor(io_, [=, this](Result<Lease> lease) {
                    const auto held = Clock::now();
                    async_release(lease.value(),
                                  asio::bind_executor(io_, [=, this](const Result<void>& done) {
                                    require(done);
                                    add(caller, counted, begun, held);
                                    begin(caller, pair + 1);
                                  }));
                  }));
  }

  void report(double elapsed, double used) const {
    std::vector<double> all;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    std::size_t most = 0;
    double longest = 0;
    for (const Tally& tally : tallies_) {
      all.insert(all.end(), tally.pairs.begin(), tally.pairs.end());
      least = std::min(least, tally.pairs.size());
      most = std::max(most, tally.pairs.size());
      longest = std::max(longest, tally.longest);
    }
    if (all.empty()) throw std::runtime_error("not one pair in the time measured");
    std::sort(all.begin(), all.end());
    const auto count = static_cast<double>(all.size());
    const auto at = [&](double share) {
      return all[std::min(all.size() - 1, static_cast<std::size_t>(share * count))];
    };
    std::printf(
        "{\"pairs\": %zu, \"seconds\": %.6f, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, "
        "\"max_us\": %.1f, \"longest_wait_us\": %.1f, \"least_share\": %zu, \"most_share\": %zu, "
        "\"client_cpu_us\": %.3f}\n",
        all.size(), elapsed, at(0.5), at(0.9), at(0.99), all.back(), longest, least, most,
        used * 1e6 / count);
  }

  const Flags flags_;
  Client client_;
  holdfast::AcquireOptions how_;
  std::atomic<Phase> phase_{Phase::kWarming};
  asio::io_context io_{1};
  std::vector<Tally> tallies_;
};

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Holdfast's driver of the comparison with other clients");
  app.add_option("--lock", flags.lock)->check(CLI::IsMember({"threads", "async"}));
  app.add_option("--mode", flags.mode)->check(CLI::IsMember({"own", "hot", "new", "hold"}));
  app.add_option("--store", flags.store, "the store's URL")->required();
  app.add_option("--prefix", flags.prefix);
  app.add_option("--callers", flags.callers);
  app.add_option("--count", flags.count);
  app.add_option("--seconds", flags.seconds);
  app.add_option("--warmup", flags.warmup);
  app.add_option("--ttl-ms", flags.ttl_ms);
  CLI11_PARSE(app, argc, argv);
  try {
    Peer peer(flags);
    flags.mode == "hold" ? peer.hold() : peer.measure();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "peer holdfast: %s\n", failure.what());
    return 1;
  }
  return 0;
}
