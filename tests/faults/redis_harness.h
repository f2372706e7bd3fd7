// Tests of faults around a Redis server use these: clients that keep their log, threads that wait
// for a lock, and what the server says it has stored.
//
// Thread-safety: one thread at a time, unless said otherwise.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "tests/faults/line.h"
#include "tests/faults/process_harness.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/redis_server.h"

namespace holdfast::faults {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using support::Direction;
using support::Fault;
using support::FaultProxy;
using support::Framing;
using support::Memory;
using support::RedisConnection;
using support::RedisServer;
using Reply = support::Reply;

// Lines that a client logs. Thread-safe.
class Journal {
 public:
  void add(const std::string& line);
  // Whether a line with this text has come, or comes within the limit.
  bool wait_for(const std::string& text, milliseconds limit = 5s) const;
  std::string all() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::string lines_;
};

// A client of the library with its log.
class Peer {
 public:
  struct Options {
    milliseconds request_timeout{2'000};
  };
  // Throws when it cannot connect.
  explicit Peer(const std::string& url) : Peer(url, Options()) {}
  Peer(const std::string& url, const Options& options);

  // Throws with the error; the second is nullopt where the lock is held elsewhere.
  Lease hold(const std::string& name, milliseconds ttl);
  std::optional<Lease> try_hold(const std::string& name, milliseconds ttl);
  // The code of an attempt that must fail with an error; kTimedOut also where it is busy.
  Error refusal(const std::string& name, milliseconds ttl = 10s);
  LockInfo look(const std::string& name);
  Client& client() { return client_; }
  const Journal& journal() const { return *journal_; }

 private:
  std::shared_ptr<Journal> journal_ = std::make_shared<Journal>();
  Client client_;
};

// A thread that waits for a lock.
class Waiter {
 public:
  Waiter(Peer& peer, const std::string& name, AcquireOptions options);
  Waiter(Peer& peer, const std::string& name, milliseconds ttl)
      : Waiter(peer, name, AcquireOptions{.ttl = ttl}) {}
  ~Waiter();

  // Returns when it stands in the queue; throws when it does not come to that.
  void await_queued();
  bool done_within(milliseconds limit);
  // The answer; throws when there is none in time.
  Result<Lease> take(milliseconds limit = 20s);
  // The same, where it must be a lease; throws with the error otherwise.
  Lease grant(milliseconds limit = 20s);
  // The instant of the answer, on boot time.
  std::int64_t at() const { return at_; }

 private:
  std::promise<void> queued_;
  std::future<void> is_queued_ = queued_.get_future();
  std::stop_source stop_;
  std::int64_t at_ = 0;
  std::future<Result<Lease>> answer_;
};

// Tells of the loss of a lease, when it has been told.
class LossWatch {
 public:
  explicit LossWatch(const Lease& lease);
  // The instant of the notification on boot time; 0: there was none within the limit.
  std::int64_t await(milliseconds limit = 20s);
  bool told() { return await(0ms) != 0; }

 private:
  std::promise<std::int64_t> told_;
  std::shared_future<std::int64_t> at_ = told_.get_future().share();
  std::stop_callback<std::function<void()>> callback_;
};

std::string key_of(const std::string& name);  // The key of the lock's record.

// Until this many have subscribed to a channel of the store.
bool await_subscribers(RedisServer& server, std::size_t count);

// Whatever object lacks its descriptor: an error, and no end of the process.
void expect_connecting_fails_without_descriptors(const std::string& url);

// Skips where there is no Redis.
class RedisFaults : public testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }
};

}  // namespace holdfast::faults
