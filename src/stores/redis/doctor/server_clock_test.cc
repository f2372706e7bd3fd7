#include "src/stores/redis/doctor/server_clock.h"

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

using namespace std::chrono_literals;
using base::BootInstant;

constexpr ServerClock::Micros kEpoch{1'700'000'000'000'000};

BootInstant at(std::chrono::nanoseconds since_boot) { return BootInstant(since_boot); }

TEST(ServerClockTest, AClockThatRunsWithOursDoesNotJump) {
  ServerClock clock;
  for (std::chrono::seconds now{1}; now < 100s; now += 10s) {
    EXPECT_FALSE(clock.observe(at(now), at(now + 20ms), kEpoch + now + 10ms));
  }
}

TEST(ServerClockTest, AJumpIsToldOnceWithItsSizeAndDirection) {
  ServerClock clock;
  ASSERT_FALSE(clock.observe(at(10s), at(10s), kEpoch + 10s));
  const auto ahead = clock.observe(at(20s), at(20s), kEpoch + 60s);
  ASSERT_TRUE(ahead);
  EXPECT_EQ(*ahead, 40s);
  EXPECT_FALSE(clock.observe(at(21s), at(21s), kEpoch + 61s));
  const auto back = clock.observe(at(30s), at(30s), kEpoch - 30s);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, -100s);
}

// An answer that took long says little about when it was given.
TEST(ServerClockTest, ALateAnswerIsNoJump) {
  ServerClock clock;
  ASSERT_FALSE(clock.observe(at(10s), at(10s), kEpoch + 10s));
  EXPECT_FALSE(clock.observe(at(11s), at(41s), kEpoch + 11s));
  EXPECT_FALSE(clock.observe(at(42s), at(72s), kEpoch + 72s));
}

TEST(ServerClockTest, WhatClocksMayDriftInALongTimeIsNoJump) {
  ServerClock clock;
  ASSERT_FALSE(clock.observe(at(0s), at(0s), kEpoch));
  EXPECT_FALSE(clock.observe(at(24h), at(24h), kEpoch + 24h + 5s));
}

}  // namespace
}  // namespace holdfast::stores::redis
