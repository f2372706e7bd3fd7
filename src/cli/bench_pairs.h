// `holdfast bench`: pairs of an acquisition and a release, as many in flight as was asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/client.h"
#include "src/cli/options/options.h"

namespace holdfast::cli {

using BenchClock = std::chrono::steady_clock;

inline double micros_of(BenchClock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

struct BenchSample {
  std::vector<double> micros;
  std::uint64_t errors = 0;
  std::optional<Error> first_error;

  void fail(const Error& error) {
    if (errors++ == 0) first_error = error;
  }
  // Otherwise a store that is down would be asked for ever.
  bool gives_up() const { return errors > 100; }
  void join(BenchSample&& other);
};

std::string bench_lock(const std::string& run, std::uint64_t number);

// Each caller is a chain of asynchronous calls. One thread serves all, so that the benchmark
// measures the store and the client, not the scheduler.
BenchSample pairs_by_chains(const Client& client, const BenchOptions& options,
                            const std::string& run, double& seconds);
// Each caller is a thread that waits.
BenchSample pairs_by_threads(const Client& client, const BenchOptions& options,
                             const std::string& run, double& seconds);

}  // namespace holdfast::cli
