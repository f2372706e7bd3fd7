#include "src/stores/zookeeper/session/session_deadline.h"

#include <gtest/gtest.h>

namespace holdfast::stores::zookeeper {
namespace {

using std::chrono_literals::operator""ms;
using base::BootInstant;

BootInstant at(std::chrono::milliseconds time) { return BootInstant(time); }

TEST(ZookeeperBeatsTest, AWriteCountsFromTheOneTwoBeforeIt) {
  SessionDeadline beats(at(0ms), 600ms);
  EXPECT_EQ(beats.deadline(), at(600ms));
  beats.acknowledged(at(100ms));
  beats.acknowledged(at(200ms));
  EXPECT_EQ(beats.deadline(), at(600ms));
  beats.acknowledged(at(300ms));
  EXPECT_EQ(beats.deadline(), at(700ms));
  beats.acknowledged(at(400ms));
  EXPECT_EQ(beats.deadline(), at(800ms));
}

TEST(ZookeeperBeatsTest, WritesInQuickSuccessionProveNothingMore) {
  SessionDeadline beats(at(0ms), 600ms);
  for (const auto sent : {100ms, 200ms, 300ms}) beats.acknowledged(at(sent));
  beats.acknowledged(at(310ms));
  beats.acknowledged(at(320ms));
  beats.acknowledged(at(330ms));
  EXPECT_EQ(beats.deadline(), at(700ms));
  EXPECT_EQ(beats.newest(), at(330ms));
}

}  // namespace
}  // namespace holdfast::stores::zookeeper
