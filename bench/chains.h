// Pairs of acquire and release through the client, many in flight, from one thread with an
// io_context: each of so many chains takes and gives back a name of its own, again and again.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>

#include "bench/figures.h"
#include "holdfast/asio.h"
#include "holdfast/client.h"

namespace holdfast::bench {

class Chains {
 public:
  Chains(const Client& client, int chains, const std::string& prefix = "bench/")
      : leases_(static_cast<std::size_t>(chains)) {
    for (int i = 0; i < chains; ++i) mutexes_.push_back(client.mutex(prefix + std::to_string(i)));
  }

  // Pairs per second; 0: one failed.
  double run(int pairs) {
    left_ = pairs;
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < leases_.size(); ++i) next(i);
    io_.restart();
    io_.run();
    return failed_ ? 0 : pairs / seconds_since(begin);
  }

 private:
  void next(std::size_t chain) {
    if (left_ == 0 || failed_) return;
    --left_;
    async_acquire(mutexes_[chain], asio::bind_executor(io_, [this, chain](Result<Lease> lease) {
                    if (!lease) return fail(lease.error());
                    leases_[chain] = *std::move(lease);
                    give_back(chain);
                  }));
  }
  void give_back(std::size_t chain) {
    async_release(*leases_[chain],
                  asio::bind_executor(io_, [this, chain](const Result<void>& released) {
                    if (!released) return fail(released.error());
                    next(chain);
                  }));
  }
  void fail(const Error& error) {
    if (!failed_) std::fprintf(stderr, "%s\n", error.message().c_str());
    failed_ = true;
  }

  asio::io_context io_{1};
  std::vector<Mutex> mutexes_;
  std::vector<std::optional<Lease>> leases_;
  int left_ = 0;
  bool failed_ = false;
};

// The same with one thread in blocking calls.
class Blocking {
 public:
  explicit Blocking(const Client& client) : mutex_(client.mutex("bench/0")) {}

  double run(int pairs) {
    const auto begin = Clock::now();
    for (int i = 0; i < pairs; ++i) {
      auto lease = mutex_.acquire();
      if (!lease || !lease->release()) return 0;
    }
    return pairs / seconds_since(begin);
  }

 private:
  Mutex mutex_;
};

// Acquires so many names and keeps them.
class Hoard {
 public:
  Hoard(const Client& client, int locks) : client_(client), locks_(locks) {
    const auto begin_all = [this] {
      for (int i = 0; i < kAtOnce; ++i) next();
    };
    leases_.reserve(static_cast<std::size_t>(locks));
    begin_all();
    io_.run();
  }

  // Whether all of them are held now.
  bool held() const {
    return static_cast<int>(leases_.size()) == locks_ &&
           std::all_of(leases_.begin(), leases_.end(),
                       [](const Lease& each) { return each.held(); });
  }

 private:
  static constexpr int kAtOnce = 64;

  void next() {
    if (asked_ == locks_) return;
    async_acquire(client_.mutex("held/" + std::to_string(asked_++)),
                  asio::bind_executor(io_, [this](Result<Lease> lease) {
                    if (!lease) {
                      std::fprintf(stderr, "%s\n", lease.error().message().c_str());
                      return;
                    }
                    leases_.push_back(*std::move(lease));
                    next();
                  }));
  }

  asio::io_context io_{1};
  const Client& client_;
  const int locks_;
  int asked_ = 0;
  std::vector<Lease> leases_;
};

}  // namespace holdfast::bench
