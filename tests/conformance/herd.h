// A crowd that waits for one lock, and what a server has to say when it is released.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/harness.h"

namespace holdfast::testing {

// The waiters are spread over the clients, and stand in the order of their numbers. None of them
// sends a heartbeat, so what the server counts is the release's.
class Herd {
 public:
  using Count = std::function<std::int64_t()>;

  // `count`: all that the server has said so far.
  Herd(Site& site, std::size_t clients, Count count) : count_(std::move(count)) {
    for (std::size_t i = 0; i < clients; ++i) {
      clients_.push_back(std::make_unique<Client>(site, "client" + std::to_string(i)));
    }
    EXPECT_TRUE(clients_[0]->acquire(request(0)));
  }

  // A release beside 20 waiters and beside 1,000, each of which must cost no more than `most`.
  // `before`: is called between the two, when all stand in the queue.
  void expect_constant_cost(
      const std::string& unit, std::int64_t most, const std::function<void()>& before = [] {}) {
    grow_to(20);
    const std::int64_t few = cost_of_a_release();
    grow_to(100);
    grow_to(1000);
    before();
    const std::int64_t many = cost_of_a_release();
    note(unit + "_with_20_waiters", few);
    note(unit + "_with_1000_waiters", many);
    EXPECT_LE(few, most);
    EXPECT_LE(many, most) << "beside " << few << " with twenty waiters";
  }

  // Called when waiters have come: returns once their entering costs the server nothing more.
  void settle_by(std::function<void()> settled) { settled_ = std::move(settled); }

  // A figure of the run, in its report.
  static void note(const std::string& what, std::int64_t figure) {
    ::testing::Test::RecordProperty(what, std::to_string(figure));
  }

 private:
  void grow_to(std::size_t waiters) {
    for (; queued_ - holder_ <= waiters; ++queued_) {
      const auto begun = base::BootClock::now();
      const auto asked = owner(queued_).acquire(request(queued_));
      ASSERT_TRUE(asked) << asked.error().message();
      ASSERT_EQ(asked->status, AcquisitionStatus::kWaiting);
      entering_.push_back(base::BootClock::now() - begun);
    }
    note("us_to_enter_as_number_" + std::to_string(waiters), median_of_the_last(20).count());
  }

  // The server's messages for one release, until the next one holds: the most of some releases.
  std::int64_t cost_of_a_release() {
    constexpr int kReleases = 5;
    settled_();
    std::int64_t most = 0;
    for (int i = 0; i < kReleases; ++i) most = std::max(most, release());
    return most;
  }

  std::int64_t release() {
    const std::int64_t before = count_();
    EXPECT_TRUE(owner(holder_).release(kName, id(holder_)));
    ++holder_;
    EXPECT_TRUE(owner(holder_).inbox().next(id(holder_), std::chrono::seconds(60)));
    return count_() - before;
  }

  std::chrono::microseconds median_of_the_last(std::size_t entries) const {
    const std::size_t some = std::min(entries, entering_.size());
    std::vector last(entering_.end() - static_cast<std::ptrdiff_t>(some), entering_.end());
    std::sort(last.begin(), last.end());
    return std::chrono::duration_cast<std::chrono::microseconds>(last.at(some / 2));
  }

  AcquisitionId id(std::size_t number) const { return {7, number + 1}; }
  Client& owner(std::size_t number) { return *clients_[number % clients_.size()]; }
  Request request(std::size_t number) const {
    return Request(kName, id(number)).leases(std::chrono::hours(1), std::chrono::hours(1));
  }

  static inline const std::string kName = "orders";
  const Count count_;
  std::function<void()> settled_ = [] {};
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<base::BootClock::duration> entering_;  // How long each took.
  std::size_t queued_ = 1;
  std::size_t holder_ = 0;
};

}  // namespace holdfast::testing
