#include "src/cli/run/alarms.h"

#include <vector>

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

LogEvent event_of(const std::string& word, const std::string& line) {
  LogEvent event;
  event.event = word;
  event.text = line;
  return event;
}

class AlarmsTest : public testing::Test {
 protected:
  void hear(const std::string& line, std::chrono::milliseconds at) {
    alarms_.hear(event_of("store", line), Alarms::Clock::time_point(at));
  }

  std::vector<std::string> told_;
  const Alarms alarms_{[this](const LogEvent& event) { told_.push_back(event.text); }};
};

TEST_F(AlarmsTest, ALineThatGoesOnComingIsToldOnce) {
  for (int i = 0; i < 100; ++i) {
    hear("damaged", i * 200ms);
    hear("damaged, too", i * 200ms);
  }
  EXPECT_EQ(told_, (std::vector<std::string>{"damaged", "damaged, too"}));
  EXPECT_EQ(alarms_.count(), 2U);
}

TEST_F(AlarmsTest, ALineThatComesAgainLaterIsToldAgain) {
  hear("away", 0s);
  hear("back", 5s);
  hear("away", 10s);
  EXPECT_EQ(told_, (std::vector<std::string>{"away", "back", "away"}));
}

TEST_F(AlarmsTest, ALossIsLeftToTheCommand) {
  alarms_.hear(event_of("lock_lost", "lock 'a' (redis://h) was lost"), {});
  EXPECT_EQ(alarms_.count(), 0U);
  hear("lock 'a' (redis://h): renewal failed, will try again (in doubt): no answer", 0s);
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(AlarmsTest, ForeignTextDoesNothingToTheTerminal) {
  hear("\033[2Jx", 0s);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0].find('\033'), std::string::npos);
}

TEST_F(AlarmsTest, TheSinkMayOutliveIt) {
  auto passing = std::make_unique<Alarms>(nullptr);
  const auto sink = passing->sink();
  sink(event_of("store", "one"));
  EXPECT_EQ(passing->count(), 1U);
  passing.reset();
  sink(event_of("store", "two"));
}

}  // namespace
}  // namespace holdfast::cli
