// A crowd of clients that takes one lock again and again while something happens to the stores, and
// checks that never two are inside and that tokens grow.
//
// Thread-safety: one thread at a time. Ownership: its clients end with it.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "tests/support/eventually.h"

namespace holdfast::testing {

inline Client connect_with_ttl(const std::string& url, std::chrono::milliseconds ttl) {
  ClientOptions options;
  options.default_ttl = ttl;
  auto client = Client::connect(url, options);
  if (!client) throw std::runtime_error(client.error().message());
  return *std::move(client);
}

class Crowd {
 public:
  struct Terms {
    std::chrono::milliseconds ttl{2000};
    std::chrono::milliseconds wait{2000};
    // Whether the store may be away: then an acquire may fail, and a lease may be lost.
    bool may_fail = true;
  };

  // One client for each URL.
  Crowd(const std::vector<std::string>& urls, Terms terms) : terms_(terms) {
    for (const std::string& url : urls) clients_.push_back(connect_with_ttl(url, terms.ttl));
    for (Client& client : clients_) {
      threads_.emplace_back([this, &client] {
        while (!stop_) work(client);
      });
    }
  }
  Crowd(const std::string& url, std::size_t clients, Terms terms)
      : Crowd(std::vector<std::string>(clients, url), terms) {}
  ~Crowd() { stop(); }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void stop() {
    stop_ = true;
    for (auto& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  int grants() const { return grants_; }
  // Returns when so many more were granted.
  void await_grants(int more) const {
    const int wanted = grants_ + more;
    EXPECT_TRUE(support::eventually([&] { return grants_ >= wanted; }))
        << grants_ << " grants of " << wanted;
  }
  Token last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  void work(Client& client) {
    auto lease = client.mutex("orders").acquire({.wait = terms_.wait});
    if (!lease) {
      // Contention and an outage have names of their own.
      const Errc code = lease.error().code();
      EXPECT_TRUE(terms_.may_fail && (code == Errc::kTimedOut || code == Errc::kUnavailable ||
                                      code == Errc::kOutcomeUnknown))
          << lease.error().message();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      EXPECT_GT(lease->token(), last_);
      last_ = lease->token();
    }
    // Whoever is inside believes for as long as held() says so, and no longer.
    EXPECT_TRUE(inside_.exchange(&*lease) == nullptr) << "two are inside";
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
    while (lease->held() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(terms_.may_fail || lease->held());
    inside_ = nullptr;
    ++grants_;
    const auto released = lease->release();
    EXPECT_TRUE(terms_.may_fail || released) << released.error().message();
  }

  const Terms terms_;
  std::vector<Client> clients_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  std::atomic<const Lease*> inside_{nullptr};
  std::atomic<int> grants_{0};
  mutable std::mutex mutex_;
  Token last_{};
};

}  // namespace holdfast::testing
