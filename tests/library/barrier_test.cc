// Barriers: who passes, who is told what when a participant is gone, and what a call leaves behind.
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

constexpr auto kLong = 60s;

class BarrierTest : public LibraryTest {
 protected:
  Barrier a(std::uint32_t parties = 2, BarrierPolicy policy = BarrierPolicy::kBreak) {
    return one().barrier("step", parties, policy);
  }
  Barrier b(std::uint32_t parties = 2, BarrierPolicy policy = BarrierPolicy::kBreak) {
    return two().barrier("step", parties, policy);
  }
  static BarrierSeat seat_of(Barrier barrier, AcquireOptions options = {}) {
    auto seat = barrier.join(std::move(options));
    if (!seat) {
      ADD_FAILURE() << seat.error().message();
      std::abort();
    }
    return *std::move(seat);
  }
  // A participant whose process is gone, as far as the others can see.
  static void join_and_die(Barrier barrier) {
    seat_of(std::move(barrier), {.ttl = 300ms, .auto_renew = false}).lease().detach();
  }
  static std::future<Result<std::uint64_t>> arrive(BarrierSeat& seat, AcquireOptions options = {}) {
    if (!options.wait) options.wait = kLong;
    return std::async(std::launch::async,
                      [&seat, options] { return seat.arrive_and_wait(options); });
  }
  void await_arrivals(std::uint32_t arrived) {
    const auto until = std::chrono::steady_clock::now() + kLong;
    while (a().count().value().arrived != arrived) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      std::this_thread::sleep_for(2ms);
    }
  }
};

TEST_P(BarrierTest, NobodyPassesBeforeAllHaveArrived) {
  BarrierSeat first = seat_of(a());
  EXPECT_TRUE(fails_with(first.arrive_and_wait({.wait = 30ms}), Errc::kTimedOut));
  // Joins late: it is awaited from the beginning.
  auto waiting = arrive(first);
  await_arrivals(1);
  BarrierSeat second = seat_of(b());
  const BarrierCount before = b().count().value();
  EXPECT_EQ(before.parties, 2U);
  EXPECT_EQ(before.joined, 2U);
  EXPECT_EQ(before.arrived, 1U);
  EXPECT_EQ(second.arrive_and_wait().value(), before.generation);
  EXPECT_EQ(waiting.get().value(), before.generation);
  EXPECT_EQ(a().count().value().generation, before.generation + 1);
  EXPECT_EQ(a().count().value().arrived, 0U);
}

TEST_P(BarrierTest, IsPassedManyTimes) {
  constexpr std::uint32_t kParties = 3;
  constexpr int kRounds = 8;
  std::atomic<int> here{0};
  std::vector<std::future<void>> all;
  for (std::uint32_t i = 0; i < kParties; ++i) {
    Client& client = i == 0 ? one() : two();
    all.push_back(std::async(std::launch::async, [&here, &client] {
      BarrierSeat seat = seat_of(client.barrier("rounds", kParties));
      for (int round = 0; round < kRounds; ++round) {
        ++here;
        const auto passed = seat.arrive_and_wait({.wait = kLong});
        ASSERT_TRUE(passed) << passed.error().message();
        // All have begun this round, and nobody is two ahead.
        ASSERT_GE(here, (round + 1) * static_cast<int>(kParties));
        ASSERT_LE(here, (round + 2) * static_cast<int>(kParties));
      }
    }));
  }
  for (auto& one_of_them : all) one_of_them.get();
  EXPECT_EQ(here, kRounds * static_cast<int>(kParties));
}

TEST_P(BarrierTest, ThereAreNoMoreSeatsThanParties) {
  BarrierSeat first = seat_of(a());
  BarrierSeat second = seat_of(b());
  EXPECT_TRUE(fails_with(b().join({.wait = 20ms}), Errc::kTimedOut));
  auto third = std::async(std::launch::async, [&] { return b().join({.wait = kLong}); });
  EXPECT_TRUE(first.arrive_and_leave());
  EXPECT_TRUE(third.get());
}

TEST_P(BarrierTest, ACrashBreaksItForTheOthersUntilItIsReset) {
  BarrierSeat first = seat_of(a(3));
  BarrierSeat second = seat_of(b(3));
  join_and_die(two().barrier("step", 3));
  auto waiting = arrive(first);
  EXPECT_TRUE(fails_with(second.arrive_and_wait({.wait = kLong}), Errc::kBroken));
  EXPECT_TRUE(fails_with(waiting.get(), Errc::kBroken));
  EXPECT_TRUE(fails_with(first.arrive_and_wait(), Errc::kBroken));
  EXPECT_TRUE(a(3).count().value().broken);
  BarrierSeat again = seat_of(b(3));
  EXPECT_TRUE(a(3).reset());
  EXPECT_FALSE(b(3).count().value().broken);
  auto one_waits = arrive(first);
  auto other_waits = arrive(second);
  EXPECT_TRUE(again.arrive_and_wait({.wait = kLong}));
  EXPECT_TRUE(one_waits.get());
  EXPECT_TRUE(other_waits.get());
}

TEST_P(BarrierTest, ACrashIsNotAwaitedWhereThatWasChosen) {
  const auto leave = BarrierPolicy::kLeave;
  BarrierSeat first = seat_of(a(3, leave));
  BarrierSeat second = seat_of(b(3, leave));
  join_and_die(b(3, leave));
  auto waiting = arrive(first);
  EXPECT_TRUE(second.arrive_and_wait({.wait = kLong}));
  EXPECT_TRUE(waiting.get());
  EXPECT_EQ(a(3, leave).count().value().parties, 2U);
  // Whoever takes its place is awaited again.
  BarrierSeat third = seat_of(b(3, leave));
  waiting = arrive(first);
  EXPECT_TRUE(fails_with(second.arrive_and_wait({.wait = 50ms}), Errc::kTimedOut));
  auto second_waits = arrive(second);
  EXPECT_TRUE(third.arrive_and_wait({.wait = kLong}));
  EXPECT_TRUE(waiting.get());
  EXPECT_TRUE(second_waits.get());
}

TEST_P(BarrierTest, WhoArrivesAndLeavesIsNotAwaitedAnyMore) {
  BarrierSeat first = seat_of(a());
  EXPECT_TRUE(first.arrive_and_leave());
  EXPECT_FALSE(first.held());
  BarrierSeat second = seat_of(b());
  EXPECT_EQ(b().count().value().arrived, 1U);
  EXPECT_TRUE(second.arrive_and_wait({.wait = kLong}));
  EXPECT_TRUE(second.arrive_and_wait({.wait = kLong}));
  EXPECT_TRUE(fails_with(first.arrive_and_wait(), Errc::kLost));
  EXPECT_TRUE(second.arrive_and_leave());
  // All have gone: it begins anew.
  EXPECT_EQ(b().count().value().parties, 2U);
}

TEST_P(BarrierTest, AWaitThatEndsTakesItsArrivalBack) {
  BarrierSeat first = seat_of(a());
  BarrierSeat second = seat_of(b());
  std::stop_source stop;
  auto waiting = arrive(first, {.cancel = stop.get_token()});
  await_arrivals(1);
  stop.request_stop();
  EXPECT_TRUE(fails_with(waiting.get(), Errc::kCancelled));
  EXPECT_EQ(b().count().value().arrived, 0U);
  EXPECT_TRUE(fails_with(first.arrive_and_wait({.cancel = stop.get_token()}), Errc::kCancelled));
  EXPECT_TRUE(fails_with(second.arrive_and_wait({.wait = 0ms}), Errc::kTimedOut));
  waiting = arrive(first);
  EXPECT_TRUE(second.arrive_and_wait({.wait = kLong}));
  EXPECT_TRUE(waiting.get());
}

TEST_P(BarrierTest, WhoLostItsSeatIsTold) {
  BarrierSeat first = seat_of(a(3));
  BarrierSeat second = seat_of(b(3), {.ttl = 300ms, .auto_renew = false});
  EXPECT_TRUE(fails_with(second.arrive_and_wait({.wait = kLong}), Errc::kLost));
  EXPECT_TRUE(fails_with(second.arrive_and_leave(), Errc::kLost));
  EXPECT_TRUE(fails_with(first.arrive_and_wait({.wait = kLong}), Errc::kBroken));
}

TEST_P(BarrierTest, AResetTellsWhoWaits) {
  BarrierSeat first = seat_of(a());
  auto waiting = arrive(first);
  await_arrivals(1);
  EXPECT_TRUE(b().reset());
  EXPECT_TRUE(fails_with(waiting.get(), Errc::kBroken));
  BarrierSeat second = seat_of(b());
  waiting = arrive(first);
  EXPECT_TRUE(second.arrive_and_wait({.wait = kLong}));
  EXPECT_TRUE(waiting.get());
}

TEST_P(BarrierTest, EndsItsWaitsWhenTheClientIsClosed) {
  Client closing = connect();
  BarrierSeat seat = seat_of(closing.barrier("step", 2));
  auto waiting = arrive(seat);
  await_arrivals(1);
  EXPECT_TRUE(closing.close());
  EXPECT_TRUE(fails_with(waiting.get(), Errc::kClosed));
}

TEST_P(BarrierTest, AllMustAgree) {
  const BarrierSeat first = seat_of(a());
  EXPECT_TRUE(fails_with(b(3).join({.wait = 0ms}), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(b(2, BarrierPolicy::kLeave).join(), Errc::kInvalidArgument));
  const BarrierSeat second = seat_of(b());  // All seats are taken.
  EXPECT_TRUE(
      fails_with(b(2, BarrierPolicy::kLeave).join({.wait = kLong}), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(b(3).join({.wait = kLong}), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(two().barrier("none", 0).join(), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(two().barrier("many", 101).join(), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(two().barrier(std::string(246, 'x'), 2).join(), Errc::kInvalidArgument));
  EXPECT_TRUE(two().barrier(std::string(245, 'x'), 2).join());
  EXPECT_TRUE(fails_with(two().barrier("..", 2).join(), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(two().mutex("step/../barrier").acquire(), Errc::kInvalidArgument));
}

HOLDFAST_ON_EVERY_STORE(BarrierTest);

}  // namespace
}  // namespace holdfast::testing
