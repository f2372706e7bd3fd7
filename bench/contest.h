// Locks on a consensus store against the raw limit of the same server, in the same run: what the
// benchmarks of ZooKeeper, etcd and Consul have in common.
//
// PairsInFlight: so many acquisitions in flight on as many names, from one thread; pairs per second
//   beside what the bare loop reaches with as many in flight (RawPairs: each store's file says what
//   a bare pair is there). The two take turns; each figure is the median of the rounds, the ratio
//   the median of the rounds' ratios. The CPU time of a pair is told for both, too: this process's
//   and the server's; and how many requests one of ours is.
// Handoff: sixteen clients, each with a thread in a blocking acquire(), want one name. From the
//   call of release() to the next holder's return from acquire(); p50. Beside it, in turn, while
//   the lock is held: a bare watch on a key, from before its deletion is asked for to the event;
//   and a bare read, which is a round trip. `beyond_watch` is (handoff - watch) / round trip, of
//   the medians: 2 at most.
// Held: how many requests the server gets in ten seconds for 100 and for 10,000 locks that one
//   client holds, with a session of six seconds.
//
// The server is one of the tests' (tests/support), on loopback, its data in memory where the host
// has a file system for that. Where it is not to be had, the benchmarks are skipped and say why.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::bench {

// The bare loop, over the store's own client library.
class RawPairs {
 public:
  virtual ~RawPairs() = default;
  // Pairs per second; 0: one failed.
  virtual double run(int pairs) = 0;
};

// Microseconds, of one at a time.
class RawWatch {
 public:
  virtual ~RawWatch() = default;
  virtual double deletion_us() = 0;
  virtual double round_trip_us() = 0;
};

// A server, running.
class Site {
 public:
  virtual ~Site() = default;
  virtual pid_t process() const = 0;
  // `query`: "" or "?session=6s".
  virtual std::string url(const std::string& query) const = 0;
  virtual std::unique_ptr<RawPairs> raw_pairs(int in_flight) = 0;
  virtual std::unique_ptr<RawWatch> raw_watch() = 0;
  // How many it has got so far.
  virtual double requests() const = 0;
};

struct Contest {
  std::optional<std::string> unavailable;  // Why there is no server.
  std::function<std::unique_ptr<Site>()> start;
  std::vector<int> in_flight;
  int pairs_per_round = 0;
  bool alone_blocks = false;  // One in flight is a thread in blocking calls, like the bare loop.
};

// The main function of such a benchmark.
int run_contest(int argc, char** argv, Contest contest);

}  // namespace holdfast::bench
