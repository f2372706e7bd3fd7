#include "src/port/boot_timer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

using base::BootClock;
using namespace std::chrono_literals;

TEST(BootTimerTest, FiresOnceItsTimeHasCome) {
  asio::io_context io;
  BootTimer timer(io);
  const auto at = BootClock::now() + 20ms;
  int fired = 0;
  timer.arm_at(at, [&] { ++fired; });
  io.run();
  EXPECT_EQ(fired, 1);
  EXPECT_GE(BootClock::now(), at);
}

TEST(BootTimerTest, TheLastArmCounts) {
  asio::io_context io;
  BootTimer timer(io);
  std::vector<int> fired;
  timer.arm(10h, [&] { fired.push_back(1); });
  timer.arm(1ms, [&] { fired.push_back(2); });
  io.run();
  EXPECT_EQ(fired, std::vector<int>{2});
}

TEST(BootTimerTest, PutOffAfterItCameDueItStillWaits) {
  asio::io_context io;
  BootTimer timer(io);
  BootTimer late(io);
  const auto at = BootClock::now() + 30ms;
  bool early = false;
  bool fired = false;
  timer.arm(0ms, [&] { early = true; });
  while (BootClock::now() < at - 20ms) {
  }
  timer.arm_at(at, [&] { fired = true; });
  io.run();
  EXPECT_FALSE(early);
  EXPECT_TRUE(fired);
  EXPECT_GE(BootClock::now(), at);
}

TEST(BootTimerTest, StoppedItLetsTheLoopEndAndCanBeArmedAgain) {
  asio::io_context io;
  BootTimer timer(io);
  bool fired = false;
  timer.arm(10h, [&] { fired = true; });
  timer.stop();
  io.run();
  EXPECT_FALSE(fired);
  io.restart();
  timer.arm(0ms,
            [&] { timer.arm(10h, [] {}), timer.stop(), timer.arm(1ms, [&] { fired = true; }); });
  io.run();
  EXPECT_TRUE(fired);
}

TEST(BootTimerTest, ItMayGoInItsOwnCallback) {
  asio::io_context io;
  auto timer = std::make_unique<BootTimer>(io);
  timer->arm(0ms, [&] { timer.reset(); });
  io.run();
  EXPECT_EQ(timer, nullptr);
}

// How many timers on boot time this process has.
long boot_timers() {
  long count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    count += text.find("clockid: 7") != std::string::npos ? 1 : 0;
  }
  return count;
}

// A suspend cannot be had in a test: but this is the clock that counts it.
TEST(BootTimerTest, ItsClockCountsSuspend) {
  asio::io_context io;
  const long before = boot_timers();
  const BootTimer timer(io);
  EXPECT_EQ(boot_timers(), before + 1);
}

}  // namespace
}  // namespace holdfast::port
