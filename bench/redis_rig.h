// Shared by the benchmarks of the Redis store: a server of their own, a plain blocking
// socket, redis-benchmark as the reference, and the shortest safe pair of scripts.
//
// The server: redis-server on loopback with a folder of its own, no persistence;
// HOLDFAST_BENCH_REDIS names another program. Without one every benchmark says so and fails.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figures.h"

namespace holdfast::bench {

// SET key id NX PX ttl, then INCR of a counter, in one script; compare the value and delete.
inline constexpr std::string_view kShortestAcquire =
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then "
    "return redis.call('INCR', KEYS[2]) end return 0";
inline constexpr std::string_view kShortestRelease =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

class RedisRig {
 public:
  // nullptr: there is no server to be had.
  static RedisRig* instance();

  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  std::uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  // "redis 7.0.15".
  const std::string& version() const { return version_; }
  // Its CPU time so far.
  double cpu_seconds() const;
  // Loads the script; its hash.
  std::string load(std::string_view script) const;

 private:
  RedisRig();
  ~RedisRig();
  bool start(const std::string& program);

  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  std::string folder_;
  std::string version_;
};

// A blocking socket, one request at a time. Whole replies only, which short ones are on loopback.
class RawConnection {
 public:
  explicit RawConnection(std::uint16_t port);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool good() const { return fd_ >= 0; }
  // Empty: it failed. The view is good until the next call.
  std::string_view round_trip(std::string_view wire);
  // The text of a simple reply without its type and line ends; of an array: all of it.
  std::string ask(const std::vector<std::string_view>& words);

 private:
  int fd_ = -1;
  std::vector<char> buffer_;
};

// One request as bytes.
std::string request(const std::vector<std::string_view>& words);

// Requests per second as redis-benchmark reports them; 0: it failed.
// `options`: "-c 50 -P 16 -n 100000"; __rand_int__ in `words` differs from request to request.
double redis_benchmark(const std::string& options, const std::vector<std::string>& words);

// Binds a thread or process (0: this thread) to a core; -1: to all.
void pin(pid_t who, int core);

}  // namespace holdfast::bench
