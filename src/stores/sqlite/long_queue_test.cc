// A lock that many wait for: what a change of it costs, and that leaving most of the queue in the
// file changes no answer.
#include <atomic>
#include <cstdint>
#include <memory>

#include "src/stores/sqlite/operations.h"
#include "src/stores/sqlite/store_test_support.h"

namespace holdfast::stores::sqlite::testing {
namespace {

class LongQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Database::open(folder_ / "locks.db", tuning_);
    ASSERT_TRUE(opened) << opened.error().message();
    database_ = *std::move(opened);
    operations_ = std::make_unique<Operations>(*database_, "");
  }

  static AcquisitionId number(std::uint64_t n) { return {7, n}; }
  static port::AcquireRequest ask(std::uint64_t n, Mode mode = Mode::exclusive()) {
    auto request = request_for("a", number(n));
    request.mode = mode;
    return request;
  }
  Result<AcquisitionState> acquire(const port::AcquireRequest& request) {
    return operations_->acquire(request, notices_);
  }
  // Number `from` up to, and without, `to`.
  void queue_up(std::uint64_t from, std::uint64_t to, Mode mode = Mode::exclusive()) {
    for (std::uint64_t n = from; n < to; ++n) {
      const auto state = acquire(ask(n, mode));
      ASSERT_TRUE(state) << state.error().message();
      ASSERT_EQ(state->status, AcquisitionStatus::kWaiting);
    }
  }
  Result<EndStatus> release(std::uint64_t n) {
    notices_.clear();
    return operations_->release({"a", number(n), soon()}, notices_);
  }
  Result<AcquisitionState> renew(std::uint64_t n, std::uint64_t seq) {
    return operations_->renew({{"a", number(n), seq, 30s, 5s, {}}}, notices_).front();
  }
  std::size_t holders() { return operations_->inspect("a")->value().holders.size(); }

  // The work of SQLite's statements since this was called last.
  std::int64_t work() {
    std::int64_t steps = 0;
    sqlite3_stmt* statement = nullptr;
    while ((statement = sqlite3_next_stmt(database_->handle(), statement)) != nullptr) {
      steps += sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, /*reset=*/1);
    }
    return steps;
  }

  const TempFolder folder_;
  std::atomic<std::int64_t> now_ = 1'000'000;
  SqliteTuning tuning_ = [this] {
    SqliteTuning tuning;
    tuning.now = [this] { return Instant(machine::Duration(now_)); };
    return tuning;
  }();
  std::unique_ptr<Database> database_;
  std::unique_ptr<Operations> operations_;
  Notices notices_;
};

TEST_F(LongQueueTest, AChangeCostsTheSameHoweverManyWait) {
  ASSERT_TRUE(acquire(ask(0)));
  std::uint64_t last = 1;
  std::uint64_t holder = 0;
  const auto cost_behind = [&](std::uint64_t waiters) {
    queue_up(last, last + waiters);
    last += waiters;
    work();
    EXPECT_EQ(*release(holder++), EndStatus::kReleased);
    EXPECT_EQ(*release(last - waiters / 2), EndStatus::kCancelled);
    queue_up(last, last + 1);
    ++last;
    EXPECT_EQ(renew(last - 1, 1)->status, AcquisitionStatus::kWaiting);
    return work();
  };
  const std::int64_t few = cost_behind(20);
  const std::int64_t many = cost_behind(2'000);
  EXPECT_LT(many, few + few / 2);
}

TEST_F(LongQueueTest, IsServedInOrderToItsEnd) {
  constexpr std::uint64_t kWaiters = 300;
  ASSERT_TRUE(acquire(ask(0)));
  for (std::uint64_t n = 1; n <= kWaiters; ++n) {
    const auto state = acquire(ask(n));
    ASSERT_TRUE(state);
    ASSERT_EQ(state->ahead, n - 1);
  }
  EXPECT_EQ(acquire(ask(40))->ahead, 39U) << "asked again";
  EXPECT_GE(acquire(ask(kWaiters))->ahead, 64U) << "asked again, beyond what is counted exactly";
  for (std::uint64_t n = 0; n < kWaiters; ++n) {
    ASSERT_EQ(*release(n), EndStatus::kReleased) << n;
    ASSERT_EQ(notices_.size(), 1U);
    ASSERT_EQ(notices_.front().id, number(n + 1));
    ASSERT_TRUE(notices_.front().granted);
  }
  ASSERT_EQ(*release(kWaiters), EndStatus::kReleased);
  const auto info = operations_->inspect("a");
  EXPECT_TRUE(info->value().holders.empty());
  EXPECT_TRUE(info->value().waiters.empty());
}

TEST_F(LongQueueTest, ReadersAreLetInByStepsOfTheMachine) {
  ASSERT_TRUE(acquire(ask(0)));
  queue_up(1, 301, Mode::shared());
  ASSERT_EQ(*release(0), EndStatus::kReleased);
  EXPECT_EQ(holders(), 128U);
  EXPECT_EQ(renew(300, 1)->status, AcquisitionStatus::kWaiting);
  EXPECT_EQ(holders(), 256U);
  EXPECT_EQ(renew(300, 2)->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(holders(), 300U);
}

TEST_F(LongQueueTest, AnUpgradePassesIt) {
  ASSERT_TRUE(acquire(ask(1, Mode::shared())));
  ASSERT_TRUE(acquire(ask(2, Mode::shared())));
  queue_up(3, 100);
  auto upgrade = ask(100);
  upgrade.upgrade_of = number(1);
  EXPECT_EQ(acquire(upgrade)->ahead, 0U);
  ASSERT_EQ(*release(2), EndStatus::kReleased);
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_EQ(notices_.front().id, number(100));
}

TEST_F(LongQueueTest, ALimitOnItsLengthCountsAllWhoWait) {
  ASSERT_TRUE(acquire(ask(0)));
  queue_up(1, 100);
  auto limited = ask(100);
  limited.max_waiters = 99;
  EXPECT_EQ(acquire(limited).error().code(), Errc::kQueueFull);
  limited.max_waiters = 1;
  EXPECT_EQ(acquire(limited).error().code(), Errc::kQueueFull);
  limited.max_waiters = 100;
  EXPECT_EQ(acquire(limited)->ahead, 99U);
}

TEST_F(LongQueueTest, WhoeverIsOverFarBackIsDroppedInTime) {
  ASSERT_TRUE(acquire(ask(0)));
  queue_up(1, 100);
  now_ += 4'000'000;
  for (std::uint64_t n = 1; n < 100; ++n) {
    if (n != 70) {
      ASSERT_EQ(renew(n, 1)->status, AcquisitionStatus::kWaiting);
    }
  }
  now_ += 1'000'000;  // The end of the lease of number 70.
  ASSERT_EQ(*release(0), EndStatus::kReleased);
  EXPECT_EQ(operations_->inspect("a")->value().waiters.size(), 97U);
  EXPECT_EQ(renew(70, 2)->status, AcquisitionStatus::kGone);
}

}  // namespace
}  // namespace holdfast::stores::sqlite::testing
