#include "src/port/alarms.h"

#include <chrono>
#include <memory>
#include <vector>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

using base::BootClock;
using namespace std::chrono_literals;

TEST(AlarmsTest, TasksAreCalledInTheOrderOfTheirTimes) {
  asio::io_context io;
  Alarms alarms(io);
  const auto now = BootClock::now();
  std::vector<int> called;
  alarms.at(now + 20ms, [&] { called.push_back(2); });
  alarms.at(now + 10ms, [&] {
    called.push_back(1);
    alarms.at(now + 30ms, [&] { called.push_back(3); });
  });
  EXPECT_TRUE(called.empty());
  io.run();
  EXPECT_EQ(called, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(BootClock::now(), now + 30ms);
}

TEST(AlarmsTest, WhatIsCancelledIsNotCalled) {
  asio::io_context io;
  Alarms alarms(io);
  std::vector<int> called;
  const Alarms::Alarm first = alarms.at(BootClock::now(), [&] { called.push_back(1); });
  alarms.at(BootClock::now() + 1ms, [&] { called.push_back(2); });
  alarms.cancel(first);
  io.run();
  EXPECT_EQ(called, std::vector<int>{2});
}

TEST(AlarmsTest, StopReturnsWhatIsLeftAndNothingIsCalledAfterIt) {
  asio::io_context io;
  Alarms alarms(io);
  std::vector<int> called;
  alarms.at(BootClock::now() + 2ms, [&] { called.push_back(2); });
  alarms.at(BootClock::now(), [&] { called.push_back(1); });
  const std::vector<Task> left = alarms.stop();
  alarms.cancel(alarms.at(BootClock::now(), [&] { called.push_back(3); }));
  io.run();
  EXPECT_TRUE(called.empty());
  for (const Task& task : left) task();
  EXPECT_EQ(called, (std::vector<int>{1, 2}));
}

TEST(AlarmsTest, ATaskMayDestroyThem) {
  asio::io_context io;
  auto alarms = std::make_unique<Alarms>(io);
  int called = 0;
  alarms->at(BootClock::now(), [&] {
    ++called;
    alarms.reset();
  });
  alarms->at(BootClock::now(), [&] { ++called; });
  io.run();
  EXPECT_EQ(called, 1);
}

}  // namespace
}  // namespace holdfast::port
