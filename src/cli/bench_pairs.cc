#include "src/cli/bench_pairs.h"

#include <memory>
#include <thread>
#include <utility>

#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>

#include "holdfast/asio.h"

namespace holdfast::cli {
namespace {

// Each caller uses its share of the names, one after the other.
std::string name_for(const BenchOptions& options, const std::string& run, int caller,
                     std::uint64_t round) {
  const auto step = round * static_cast<std::uint64_t>(options.in_flight);
  const auto number =
      (static_cast<std::uint64_t>(caller) + step) % static_cast<std::uint64_t>(options.names);
  return bench_lock(run, number);
}

AcquireOptions how_of(const BenchOptions& options) {
  AcquireOptions how;
  how.ttl = options.ttl.value_or(Duration::zero());
  return how;
}

struct Chains {
  const Client& client;
  const BenchOptions& options;
  const std::string& run;
  const BenchClock::time_point until;
  asio::io_context io{1};
  BenchSample sample{};
};

class Chain : public std::enable_shared_from_this<Chain> {
 public:
  Chain(Chains& all, int caller) : all_(all), caller_(caller) {}

  void next() {
    if (BenchClock::now() >= all_.until || all_.sample.gives_up()) return;
    const std::string name = name_for(all_.options, all_.run, caller_, round_++);
    begin_ = BenchClock::now();
    async_acquire(all_.client.mutex(name), how_of(all_.options),
                  asio::bind_executor(all_.io, [self = shared_from_this()](Result<Lease> lease) {
                    self->acquired(std::move(lease));
                  }));
  }

 private:
  void acquired(Result<Lease> lease) {
    const double micros = micros_of(BenchClock::now() - begin_);
    if (!lease) {
      all_.sample.fail(lease.error());
      return next();
    }
    async_release(*lease, asio::bind_executor(all_.io, [self = shared_from_this(),
                                                        micros](const Result<void>& released) {
      self->released(released, micros);
    }));
  }

  void released(const Result<void>& released, double micros) {
    if (released) {
      all_.sample.micros.push_back(micros);
    } else {
      all_.sample.fail(released.error());
    }
    next();
  }

  Chains& all_;
  const int caller_;
  std::uint64_t round_ = 0;
  BenchClock::time_point begin_;
};

BenchSample pair_loop(const Client& client, const BenchOptions& options, const std::string& run,
                      int caller, BenchClock::time_point until) {
  BenchSample sample;
  for (std::uint64_t i = 0; BenchClock::now() < until && !sample.gives_up(); ++i) {
    const std::string name = name_for(options, run, caller, i);
    const auto begin = BenchClock::now();
    auto lease = client.mutex(name).acquire(how_of(options));
    if (!lease) {
      sample.fail(lease.error());
      continue;
    }
    const double micros = micros_of(BenchClock::now() - begin);
    if (auto released = lease->release(); !released) {
      sample.fail(released.error());
      continue;
    }
    sample.micros.push_back(micros);
  }
  return sample;
}

double seconds_since(BenchClock::time_point begin) {
  return std::chrono::duration<double>(BenchClock::now() - begin).count();
}

}  // namespace

void BenchSample::join(BenchSample&& other) {
  micros.insert(micros.end(), other.micros.begin(), other.micros.end());
  if (errors == 0) first_error = std::move(other.first_error);
  errors += other.errors;
}

std::string bench_lock(const std::string& run, std::uint64_t number) {
  return "holdfast-bench/" + run + "/" + std::to_string(number);
}

BenchSample pairs_by_chains(const Client& client, const BenchOptions& options,
                            const std::string& run, double& seconds) {
  const auto begin = BenchClock::now();
  Chains all{client, options, run, begin + options.duration};
  for (int caller = 0; caller < options.in_flight; ++caller) {
    std::make_shared<Chain>(all, caller)->next();
  }
  all.io.run();
  seconds = seconds_since(begin);
  return std::move(all.sample);
}

BenchSample pairs_by_threads(const Client& client, const BenchOptions& options,
                             const std::string& run, double& seconds) {
  const auto begin = BenchClock::now();
  const auto until = begin + options.duration;
  std::vector<BenchSample> samples(static_cast<std::size_t>(options.in_flight));
  std::vector<std::thread> callers;
  callers.reserve(samples.size());
  for (int caller = 0; caller < options.in_flight; ++caller) {
    callers.emplace_back([&, caller] {
      samples[static_cast<std::size_t>(caller)] = pair_loop(client, options, run, caller, until);
    });
  }
  for (std::thread& caller : callers) caller.join();
  seconds = seconds_since(begin);
  BenchSample all;
  for (BenchSample& sample : samples) all.join(std::move(sample));
  return all;
}

}  // namespace holdfast::cli
