#include "holdfast/ids/snowflake.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <latch>
#include <random>
#include <thread>
#include <unordered_set>

#include <gtest/gtest.h>

#include "src/ids/fake_clock.h"

namespace holdfast::ids {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

using Generator = std::unique_ptr<Snowflake>;

Generator make(SnowflakeOptions options) {
  auto made = Snowflake::make(std::move(options));
  EXPECT_TRUE(made) << made.error();
  return *std::move(made);
}

Layout leaf() { return *Layout::parse("leaf"); }

// A keeper whose bounds a test sets.
class TestPermit final : public WorkerPermit {
 public:
  Result<void> ended(std::int64_t) override {
    ++asked;
    return Error(Errc::kUnavailable, "the store is away");
  }
  Result<void> keep_rounds(const Rounds& rounds) override {
    if (broken) return Error(Errc::kUnavailable, "the store is away");
    kept.push_back(rounds);
    return {};
  }
  IdGuarantees guarantees() const override { return {.unique_by = UniqueBy::kLease}; }

  int asked = 0;
  bool broken = false;
  std::vector<Rounds> kept;
};

TEST(SnowflakeTest, IdsTellTheirTimeAndWorkerAndGrow) {
  FakeClock clock(kNow);
  const Generator ids = make({.layout = leaf(), .worker = 17, .clock = &clock});
  const Id first = *ids->next();
  const Id second = *ids->next();
  clock.pass(milliseconds(5));
  const Id third = *ids->next();
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  const Decoded parts = *leaf().decode(third);
  EXPECT_EQ(parts.unix_time, kNow + milliseconds(5));
  EXPECT_EQ(parts.worker, 17u);
  EXPECT_EQ(parts.sequence, 0u);
  EXPECT_EQ(leaf().decode(second)->sequence, 1u);
}

// The machine's tick comes from the kernel's own page, past libc.
TEST(SnowflakeTest, TheTickOfTheMachineMovesWithItsCoarseClock) {
  static_cast<void>(IdClock::machine());
  const auto coarse = [] {
    timespec now{};
    EXPECT_EQ(::clock_gettime(CLOCK_REALTIME_COARSE, &now), 0);
    return now.tv_sec << 30 | now.tv_nsec;
  };
  const std::int64_t begin = coarse();
  for (std::int64_t before = begin, after = begin; after == begin; before = after) {
    const std::int64_t tick = IdClock::machine_tick();
    after = coarse();
    EXPECT_TRUE(tick == before || tick == after) << tick << " " << before << " " << after;
  }
}

TEST(SnowflakeTest, AFullUnitWaitsForTheNextOne) {
  FakeClock clock(kNow);
  const Generator ids =
      make({.layout = *Layout::parse("time:41 worker:10 sequence:2"), .clock = &clock});
  std::vector<std::uint64_t> given(5);
  ASSERT_EQ(*ids->next_batch(given), 5u);
  EXPECT_EQ(ids->layout().decode(Id::of(given[3]))->unix_time, kNow);
  EXPECT_EQ(ids->layout().decode(Id::of(given[4]))->unix_time, kNow + milliseconds(1));
  EXPECT_EQ(clock.slept, milliseconds(1));
}

TEST(SnowflakeTest, AFullUnitBorrowsAsFarAsItMay) {
  FakeClock clock(kNow);
  const Generator ids = make({.layout = *Layout::parse("time:41 worker:10 sequence:2"),
                              .policy = ClockPolicy::logical().borrow(milliseconds(3)),
                              .clock = &clock});
  std::vector<std::uint64_t> given(16);
  ASSERT_EQ(*ids->next_batch(given), 16u);
  EXPECT_EQ(clock.slept, milliseconds(0));
  EXPECT_EQ(ids->ahead(), milliseconds(3));
  ASSERT_TRUE(ids->next());
  EXPECT_EQ(clock.slept, milliseconds(1)) << "no further ahead than it may";
}

TEST(SnowflakeTest, LogicalTimeGoesOnWhenTheWallClockIsSetBack) {
  FakeClock clock(kNow);
  const Generator ids = make({.layout = leaf(), .clock = &clock});
  Id last = *ids->next();
  for (int i = 0; i < 5; ++i) {
    clock.step(-hours(24));
    clock.pass(milliseconds(7));
    const Id id = *ids->next();
    EXPECT_LT(last, id);
    last = id;
  }
  EXPECT_EQ(leaf().decode(last)->unix_time, kNow + milliseconds(35)) << "at the pace of boot time";
  EXPECT_EQ(ids->ahead(), hours(120));
  EXPECT_EQ(clock.slept, milliseconds(0));
}

TEST(SnowflakeTest, RefuseGivesNothingUntilTheClockHasCaughtUp) {
  FakeClock clock(kNow);
  const Generator ids = make({.layout = leaf(), .policy = ClockPolicy::refuse(), .clock = &clock});
  const Id last = *ids->next();
  clock.step(-milliseconds(3));
  const auto refused = ids->next();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable);
  EXPECT_NE(refused.error().message().find("3 ms before"), std::string::npos) << refused.error();
  clock.pass(milliseconds(3));
  EXPECT_LT(last, *ids->next());
}

TEST(SnowflakeTest, WaitWaitsForASmallSetBackOnly) {
  FakeClock clock(kNow);
  const Generator ids =
      make({.layout = leaf(), .policy = ClockPolicy::wait(milliseconds(5)), .clock = &clock});
  const Id last = *ids->next();
  clock.step(-milliseconds(5));
  EXPECT_LT(last, *ids->next());
  EXPECT_EQ(clock.slept, milliseconds(5));
  clock.step(-milliseconds(6));
  EXPECT_EQ(ids->next().error().code(), Errc::kUnavailable);
  EXPECT_EQ(clock.slept, milliseconds(5));
}

TEST(SnowflakeTest, EachSetBackTakesARoundAndTheFifthIsRefused) {
  FakeClock clock(kNow);
  const auto permit = std::make_shared<TestPermit>();
  const Generator ids = make({.layout = leaf(),
                              .policy = ClockPolicy::step_sequence(1'024),
                              .permit = permit,
                              .clock = &clock});
  for (std::uint64_t round = 0; round < 4; ++round) {
    EXPECT_EQ(leaf().decode(*ids->next())->sequence, round * 1'024);
    EXPECT_EQ(permit->kept.size(), round) << "durable before the first id of the round";
    clock.step(-milliseconds(10));
  }
  EXPECT_EQ(ids->next().error().code(), Errc::kUnavailable);
  // Above the time that round 0 was used up to, its values are free again.
  clock.step(milliseconds(41));
  ASSERT_TRUE(ids->next());
  clock.step(-milliseconds(1) / 2);
  ASSERT_TRUE(ids->next());
}

TEST(SnowflakeTest, ExtensionBitsCountThreeLargeSetBacksAndSmallOnesAreWaitedFor) {
  FakeClock clock(kNow);
  const auto permit = std::make_shared<TestPermit>();
  const Generator ids = make({.layout = leaf(),
                              .policy = ClockPolicy::extension_bits(2, milliseconds(5)),
                              .permit = permit,
                              .clock = &clock});
  ASSERT_TRUE(ids->next());
  clock.step(-milliseconds(5));
  EXPECT_EQ(leaf().decode(*ids->next())->sequence, 1u);
  EXPECT_EQ(clock.slept, milliseconds(5));
  EXPECT_TRUE(permit->kept.empty());
  for (std::uint64_t large = 1; large <= 3; ++large) {
    clock.step(-milliseconds(6));
    EXPECT_EQ(leaf().decode(*ids->next())->sequence, large << 10);
    EXPECT_EQ(permit->kept.size(), large);
  }
  clock.step(-milliseconds(6));
  EXPECT_EQ(ids->next().error().code(), Errc::kUnavailable);
}

TEST(SnowflakeTest, ARoundHoldsItsOwnValuesOnly) {
  FakeClock clock(kNow);
  const Generator ids =
      make({.layout = leaf(), .policy = ClockPolicy::step_sequence(1'024), .clock = &clock});
  std::vector<std::uint64_t> given(1'025);
  ASSERT_EQ(*ids->next_batch(given), given.size());
  EXPECT_EQ(clock.slept, milliseconds(1)) << "1,024 a millisecond";
  EXPECT_EQ(leaf().decode(Id::of(given.back()))->sequence, 0u);
}

// A round that was reset "above the highest time" was used before at lower times, too: a set back
// to those must not use it again.
TEST(SnowflakeTest, ARoundIsNotUsedTwiceAtOneTimeAfterTheClockWentOn) {
  FakeClock clock(kNow);
  const Generator ids =
      make({.layout = leaf(), .policy = ClockPolicy::step_sequence(1'024), .clock = &clock});
  std::unordered_set<std::uint64_t> seen;
  const auto take = [&] {
    const auto id = ids->next();
    if (id) {
      EXPECT_TRUE(seen.insert(id->number()).second) << *id;
    }
  };
  take();
  clock.step(-milliseconds(50));
  for (int i = 0; i < 10; ++i) take(), clock.pass(milliseconds(1));
  clock.step(milliseconds(100));
  take();
  clock.step(-milliseconds(110));
  for (int i = 0; i < 20; ++i) take(), clock.pass(milliseconds(1));
}

TEST(SnowflakeTest, ARoundThatCannotBeMadeDurableGivesNothing) {
  FakeClock clock(kNow);
  const auto permit = std::make_shared<TestPermit>();
  const Generator ids = make({.layout = leaf(),
                              .policy = ClockPolicy::extension_bits(2, milliseconds(2)),
                              .permit = permit,
                              .clock = &clock});
  ASSERT_TRUE(ids->next());
  clock.step(-milliseconds(2));
  ASSERT_TRUE(ids->next()) << "a small set back is waited for";
  EXPECT_EQ(permit->kept.size(), 0u);
  clock.step(-milliseconds(30));
  permit->broken = true;
  EXPECT_EQ(ids->next().error().code(), Errc::kUnavailable);
  permit->broken = false;
  EXPECT_EQ(leaf().decode(*ids->next())->sequence, 1'024u);
}

TEST(SnowflakeTest, AJumpForwardIsNotBelieved) {
  FakeClock clock(kNow);
  const Generator ids = make({.layout = leaf(), .clock = &clock});
  const Id last = *ids->next();
  clock.step(hours(24));
  const auto refused = ids->next();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("jumped forward by 86400000 ms"), std::string::npos)
      << refused.error();
  clock.step(-hours(24));
  EXPECT_LT(last, *ids->next());
  clock.pass(hours(24));
  EXPECT_TRUE(ids->next()) << "time that really passed is no jump";
}

TEST(SnowflakeTest, AnObjectStartsAboveWhatItIsTold) {
  FakeClock clock(kNow);
  const std::int64_t above = leaf().unit_of(kNow) + 60'000;
  for (const ClockPolicy& policy : {ClockPolicy::logical(), ClockPolicy::step_sequence(1'024)}) {
    const Generator ids =
        make({.layout = leaf(), .policy = policy, .start_above = above, .clock = &clock});
    const auto id = ids->next();
    if (policy.back == ClockPolicy::Back::kLogical) {
      EXPECT_GT(static_cast<std::int64_t>(leaf().decode(*id)->time), above);
    } else {
      EXPECT_FALSE(id) << "without marks, every round may be used up to there";
    }
  }
  const Generator waits = make({.layout = leaf(),
                                .policy = ClockPolicy::wait(seconds(1)),
                                .start_above = above,
                                .clock = &clock});
  EXPECT_EQ(waits->next().error().code(), Errc::kUnavailable);
}

TEST(SnowflakeTest, BoundsOfThePermitAreKept) {
  FakeClock clock(kNow);
  const auto permit = std::make_shared<TestPermit>();
  const std::int64_t now = leaf().unit_of(kNow);
  permit->reserved_until = now + 2;
  const Generator ids = make({.layout = leaf(), .permit = permit, .clock = &clock});
  ASSERT_TRUE(ids->next());
  clock.pass(milliseconds(2));
  EXPECT_EQ(ids->next().error().message(), "the store is away");
  EXPECT_EQ(permit->asked, 1);
  permit->reserved_until = now + 100;
  ASSERT_TRUE(ids->next());
  permit->deadline_ns = clock.boot().count() + std::chrono::nanoseconds(milliseconds(11)).count();
  clock.pass(milliseconds(2));
  EXPECT_FALSE(ids->next()) << "what is read once in a tick may be that old";
}

TEST(SnowflakeTest, TheEndOfALifetimeIsAnErrorOfItsOwnAndNothingWraps) {
  const Layout layout = *Layout::parse("time:10 worker:2 sequence:2 epoch:1800000000000");
  FakeClock clock(kNow);
  const Generator ids = make({.layout = layout, .clock = &clock});
  clock.pass(milliseconds(1'023));
  ASSERT_TRUE(ids->next());
  clock.pass(milliseconds(1));
  EXPECT_EQ(ids->next().error().code(), Errc::kUnsupported);
  const Generator full = make({.layout = layout, .start_above = 1'023, .clock = &clock});
  EXPECT_EQ(full->next().error().code(), Errc::kUnsupported);
}

TEST(SnowflakeTest, AClockBeforeTheEpochIsNamed) {
  FakeClock clock(milliseconds(1'000));
  const Generator ids = make({.layout = leaf(), .clock = &clock});
  EXPECT_NE(ids->next().error().message().find("epoch"), std::string::npos);
}

TEST(SnowflakeTest, WhatDoesNotFitIsRefused) {
  const auto code = [](SnowflakeOptions options) {
    const auto made = Snowflake::make(std::move(options));
    return made ? Errc{} : made.error().code();
  };
  EXPECT_EQ(code({.layout = leaf(), .worker = 1'024}), Errc::kInvalidArgument);
  const ClockPolicy both = ClockPolicy::step_sequence(1'024).borrow(seconds(1));
  EXPECT_EQ(code({.layout = leaf(), .policy = both}), Errc::kInvalidArgument);
  EXPECT_EQ(code({.layout = leaf(), .policy = ClockPolicy::step_sequence(1'000)}),
            Errc::kInvalidArgument);
  EXPECT_EQ(code({.layout = leaf(), .policy = ClockPolicy::step_sequence(4'096)}),
            Errc::kInvalidArgument);
  EXPECT_EQ(code({.layout = leaf(), .policy = ClockPolicy::extension_bits(13, milliseconds(0))}),
            Errc::kInvalidArgument);
  EXPECT_EQ(code({.layout = leaf(), .policy = ClockPolicy::step_sequence(0)}),
            Errc::kInvalidArgument);
  ClockPolicy longest;
  longest.forward_at_most = hours(24 * 50);
  EXPECT_EQ(code({.layout = leaf(), .policy = longest}), Errc::kInvalidArgument);
  EXPECT_EQ(code({.layout = leaf(), .policy = ClockPolicy::wait(milliseconds(-1))}),
            Errc::kInvalidArgument);
  EXPECT_EQ(code({.layout = leaf(), .start_above = std::int64_t{1} << 41}), Errc::kInvalidArgument);
}

// Ids of several threads of one object on the machine's clock: no two are the same, each thread's
// grow, and a batch lies within one call.
TEST(SnowflakeTest, ThreadsShareOneGenerator) {
  const Generator ids =
      make({.layout = leaf(), .policy = ClockPolicy::logical().borrow(seconds(1))});
  constexpr int kThreads = 4;
  // More than the scheduler lets a thread give at a stretch, so that they meet on one processor.
  constexpr std::size_t kEach = 100'000;
  std::vector<std::vector<std::uint64_t>> given(kThreads);
  std::latch together(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        auto& mine = given[static_cast<std::size_t>(t)];
        mine.reserve(kEach);
        SnowflakeBlock block(*ids, 16);
        together.arrive_and_wait();
        while (mine.size() < kEach) {
          const auto id = t % 2 == 0 ? ids->next() : block.next();
          if (!id) return;
          mine.push_back(id->number());
        }
      });
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& mine : given) {
    EXPECT_EQ(mine.size(), kEach);
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "an id came twice";
}

TEST(SnowflakeTest, ABlockThrowsAwayWhatIsOld) {
  FakeClock clock(kNow);
  const Generator ids = make({.layout = leaf(), .clock = &clock});
  SnowflakeBlock block(*ids, 64);
  EXPECT_EQ(leaf().decode(*block.next())->sequence, 0u);
  EXPECT_EQ(leaf().decode(*block.next())->sequence, 1u);
  EXPECT_EQ(leaf().decode(*ids->next())->sequence, 64u);
  clock.pass(milliseconds(9));
  EXPECT_EQ(leaf().decode(*block.next())->unix_time, kNow + milliseconds(9));
}

TEST(SnowflakeTest, ABlockOfNothingIsABlockOfOne) {
  const Generator ids = make({.layout = leaf()});
  SnowflakeBlock block(*ids, 0);
  const Id first = *block.next();
  EXPECT_NE(*block.next(), first);
  EXPECT_NE(*ids->next(), first);
}

TEST(SnowflakeTest, AForkedChildGetsNothing) {
  const Generator ids = make({.layout = leaf()});
  SnowflakeBlock block(*ids);
  ASSERT_TRUE(block.next());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool closed = !ids->next() && ids->next().error().code() == Errc::kClosed &&
                        !block.next() && block.next().error().code() == Errc::kClosed;
    ::_exit(closed ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(ids->next());
}

// Random worlds: the clock is set back and forward, time passes, and objects are made anew with
// what their predecessor left. No id comes twice, whatever the policy.
class SnowflakeWorlds : public testing::TestWithParam<int> {};

ClockPolicy policy_of(int kind) {
  switch (kind) {
    case 0: return ClockPolicy::logical();
    case 1: return ClockPolicy::logical().borrow(milliseconds(20));
    case 2: return ClockPolicy::refuse();
    case 3: return ClockPolicy::wait(milliseconds(30));
    case 4: return ClockPolicy::step_sequence(2);
    case 5: return ClockPolicy::extension_bits(2, milliseconds(3));
    default: return ClockPolicy::wait(milliseconds(30)).borrow(milliseconds(5));
  }
}

TEST_P(SnowflakeWorlds, NoIdComesTwice) {
  std::size_t given = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto up_to = [&](int most) {
      return static_cast<int>(random() % static_cast<unsigned>(most + 1));
    };
    FakeClock clock(kNow);
    const auto permit = std::make_shared<TestPermit>();
    const Layout layout = *Layout::parse("time:41 worker:2 sequence:3");
    SnowflakeOptions options{
        .layout = layout, .policy = policy_of(GetParam()), .permit = permit, .clock = &clock};
    Generator ids = make(options);
    std::unordered_set<std::uint64_t> seen;
    std::uint64_t last = 0;
    for (int step = 0; step < 200; ++step) {
      switch (up_to(9)) {
        case 0: clock.step(-milliseconds(up_to(1) == 0 ? up_to(5) : up_to(200))); break;
        case 1: clock.step(milliseconds(up_to(100))); break;
        case 2: clock.pass(milliseconds(up_to(40))); break;
        case 3:
          if (up_to(3) != 0) break;
          options.start_above = ids->last_unit();
          if (!permit->kept.empty()) options.rounds = permit->kept.back();
          ids = make(options);
          break;
        default: {
          std::vector<std::uint64_t> some(static_cast<std::size_t>(1 + up_to(10)));
          const auto count = ids->next_batch(some);
          for (std::size_t i = 0; count && i < *count; ++i) {
            ASSERT_TRUE(seen.insert(some[i]).second) << some[i];
            if (ids->guarantees().order == IdOrder::kObject) {
              ASSERT_GT(some[i], last);
            }
            last = some[i];
            ++given;
          }
        }
      }
    }
  }
  EXPECT_GT(given, 20'000u);
}

INSTANTIATE_TEST_SUITE_P(Policies, SnowflakeWorlds, testing::Range(0, 7));

TEST(AheadTest, AnIdIsAheadOfTheClockByWhatThePolicySaysAtMost) {
  const Layout layout = *Layout::parse("time:41 worker:2 sequence:3 unit:4ms");
  const std::pair<const char*, int> policies[] = {{"refuse", 0},
                                                  {"wait:8ms", 0},
                                                  {"step:2", 0},
                                                  {"extension:1:5ms", 0},
                                                  {"refuse borrow:10ms", 8},
                                                  {"wait:8ms borrow:3ms", 0},
                                                  {"wait:8ms borrow:40ms", 40}};
  for (const auto& [text, expected] : policies) {
    SCOPED_TRACE(text);
    const ClockPolicy policy = *ClockPolicy::parse(text);
    EXPECT_EQ(policy.ahead_at_most(layout), milliseconds(expected));
    FakeClock clock(kNow);
    const Generator ids = make({.layout = layout, .policy = policy, .clock = &clock});
    std::mt19937 random(7);
    milliseconds most{};
    for (int step = 0; step < 3'000; ++step) {
      if (random() % 9 == 0) clock.step(-milliseconds(random() % 12));
      if (random() % 4 == 0) clock.pass(milliseconds(random() % 20));
      const auto id = ids->next();
      if (!id) clock.pass(milliseconds(4));
      if (!id) continue;
      const auto ahead = layout.decode(*id)->unix_time - clock.wall();
      most = std::max(most, std::chrono::ceil<milliseconds>(ahead));
      EXPECT_GE(ids->ahead(), ahead);
    }
    EXPECT_EQ(most, milliseconds(expected));
  }
}

TEST(AheadTest, NothingBoundsLogicalTimeButTheClock) {
  EXPECT_EQ(ClockPolicy::logical().ahead_at_most(leaf()), std::nullopt);
  EXPECT_EQ(ClockPolicy::logical().borrow(milliseconds(5)).ahead_at_most(leaf()), std::nullopt);
  FakeClock clock(kNow);
  const Generator ids = make({.layout = leaf(), .clock = &clock});
  ASSERT_TRUE(ids->next());
  clock.step(-hours(24));
  ASSERT_TRUE(ids->next());
  EXPECT_EQ(ids->ahead(), hours(24));
}

}  // namespace
}  // namespace holdfast::ids
