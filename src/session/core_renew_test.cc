// The driver's renewals beside a request that the store does not answer.
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>

#include <gtest/gtest.h>

#include "src/port/test_unasked_store.h"
#include "src/session/core.h"

namespace holdfast::session {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongLease = 60s;
constexpr auto kAtMost = 60s;

// Outlives the store.
struct RequestsSeen {
  std::mutex mutex;
  std::condition_variable changed;
  bool answers_long = false;
  int given_up = 0;
  int of_long = 0;
  int of_short = 0;
  int largest = 0;  // Renewals in one request.
  int mixed = 0;    // Requests for several groups.

  void await(int RequestsSeen::*count, int number) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, kAtMost, [&] { return this->*count >= number; }));
  }
};
// For the next store; a client that is let go of closes its store when the case is over.
std::shared_ptr<RequestsSeen> requests_seen;

// Grants everything. A request for a long lease hangs until it is given up.
class HangingStore final : public port::UnaskedStore {
 public:
  explicit HangingStore(port::Loop& loop) : loop_(loop) {}

  void acquire(port::AcquireRequest request, port::Done<port::AcquisitionState> done) override {
    loop_.post([done, lease = request.ttl] { done(held(0, lease)); });
  }
  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             port::Done<std::vector<Result<port::AcquisitionState>>> done) override {
    std::vector<Result<port::AcquisitionState>> states;
    std::unique_lock lock(seen_->mutex);
    bool hangs = false;
    seen_->largest = std::max(seen_->largest, static_cast<int>(items.size()));
    for (const port::RenewItem& item : items) {
      seen_->mixed += renewal_group(item.name) == renewal_group(items.front().name) ? 0 : 1;
      states.emplace_back(held(item.seq, item.ttl));
      ++(item.ttl == kLongLease ? seen_->of_long : seen_->of_short);
      hangs = hangs || (item.ttl == kLongLease && !seen_->answers_long);
    }
    seen_->changed.notify_all();
    if (hangs) {
      const int before = seen_->given_up;
      seen_->changed.wait_for(lock, deadline - base::BootClock::now(),
                              [&] { return seen_->given_up > before || seen_->answers_long; });
      hangs = !seen_->answers_long;
    }
    if (hangs) {
      loop_.post([done] { done(Error(Errc::kOutcomeUnknown, "given up")); });
    } else {
      loop_.post([done, states] { done(states); });
    }
  }
  std::uint32_t renewal_group(std::string_view name) const override {
    return static_cast<std::uint32_t>(name.size());
  }
  void give_up_renewal() noexcept override {
    const std::lock_guard lock(seen_->mutex);
    ++seen_->given_up;
    seen_->changed.notify_all();
  }
  void release(port::AcquisitionRequest, port::Done<port::EndStatus> done) override {
    loop_.post([done] { done(port::EndStatus::kReleased); });
  }
  void close(base::BootInstant) override { give_up_renewal(); }

 private:
  static port::AcquisitionState held(std::uint64_t seq, Duration lease) {
    return {port::AcquisitionStatus::kHeld, {0, 7}, seq, lease, 0, {}};
  }
  port::Loop& loop_;
  const std::shared_ptr<RequestsSeen> seen_ = requests_seen;
};

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is the registry's.
Result<std::unique_ptr<port::Store>> make_hanging(port::StoreUrl, const port::StoreContext& how) {
  return std::unique_ptr<port::Store>(std::make_unique<HangingStore>(*how.loop));
}

class CoreRenewTest : public ::testing::Test {
 protected:
  CoreRenewTest() {
    CoreOptions options{"hanging:", {}, {}};
    options.client.request_timeout = kAtMost;
    core_ = Core::make(&make_hanging, {}, options).value();
  }

  Core::AcquisitionPtr acquire(std::chrono::milliseconds ttl, const std::string& name = "name") {
    return core_->acquire(name, Mode::exclusive(), {.ttl = ttl}, /*may_wait=*/true).value();
  }
  // A machine that stands still for a whole lease loses it by right: then a longer one is tried.
  template <typename Begin>
  bool a_shorter_lease_is_renewed_beside(Begin begin) {
    for (const auto ttl : {400ms, 2000ms, 10'000ms}) {
      const auto shorter = acquire(ttl);
      begin();
      const bool renewed = renewed_four_times(*shorter);
      std::exchange(shorter->core, nullptr)->release_later(shorter);
      if (renewed) return true;
    }
    return false;
  }
  bool renewed_four_times(Acquisition& acquisition) {
    bool lost = false;
    const std::stop_callback callback(Core::lost_token(acquisition), [&] {
      const std::lock_guard lock(seen_->mutex);
      lost = true;
      seen_->changed.notify_all();
    });
    std::unique_lock lock(seen_->mutex);
    const int wanted = seen_->of_short + 4;
    seen_->changed.wait_for(lock, kAtMost, [&] { return lost || seen_->of_short >= wanted; });
    return !lost && seen_->of_short >= wanted;
  }

  std::shared_ptr<RequestsSeen> seen_ = requests_seen = std::make_shared<RequestsSeen>();
  std::shared_ptr<Core> core_;
};

TEST_F(CoreRenewTest, ARequestThatHangsIsGivenUpForAShorterLease) {
  const auto lasting = acquire(kLongLease);
  EXPECT_TRUE(a_shorter_lease_is_renewed_beside([&] {
    core_->doubt(lasting);
    seen_->await(&RequestsSeen::of_long, 1);
  }));
  EXPECT_EQ(lasting->state, LeaseState::kInDoubt);
  std::exchange(lasting->core, nullptr)->release_later(lasting);
}

TEST_F(CoreRenewTest, AnAdoptionThatHangsIsGivenUpAndTriedAgain) {
  Core::AcquisitionPtr adopted;
  EXPECT_TRUE(a_shorter_lease_is_renewed_beside([&] {
    core_->adopt("name", Mode::exclusive(), {1, 2}, {.ttl = kLongLease}, [&](auto result) {
      const std::lock_guard lock(seen_->mutex);
      if (result) adopted = *result;
      seen_->changed.notify_all();
    });
    seen_->await(&RequestsSeen::of_long, 2);
  }));
  std::unique_lock lock(seen_->mutex);
  seen_->answers_long = true;
  seen_->changed.notify_all();
  ASSERT_TRUE(seen_->changed.wait_for(lock, kAtMost, [&] { return adopted != nullptr; }));
  lock.unlock();
  EXPECT_EQ(adopted->state, LeaseState::kHeld);
  std::exchange(adopted->core, nullptr)->release_later(adopted);
}

// They are due 50 ms apart, and the window is 100 ms.
TEST_F(CoreRenewTest, RenewalsThatAreNearlyDueLeaveTogether) {
  const auto first = acquire(3000ms);
  const auto second = acquire(3150ms);
  seen_->await(&RequestsSeen::largest, 2);
  for (const auto& one : {first, second}) std::exchange(one->core, nullptr)->release_later(one);
}

// So no renewal waits for the answer of a part of the store that fails by itself.
TEST_F(CoreRenewTest, RenewalsOfTwoGroupsLeaveApart) {
  const auto first = acquire(3000ms);
  const auto other = acquire(3050ms, "another name");
  const auto second = acquire(3100ms);
  seen_->await(&RequestsSeen::largest, 2);
  seen_->await(&RequestsSeen::of_short, 3);
  EXPECT_EQ(seen_->mixed, 0);
  for (const auto& one : {first, other, second}) {
    std::exchange(one->core, nullptr)->release_later(one);
  }
}

}  // namespace
}  // namespace holdfast::session
