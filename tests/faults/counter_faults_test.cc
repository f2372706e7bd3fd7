// The reason for locks: processes that read, add one and write, while some of them are killed.
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

constexpr int kProcesses = 4;
constexpr int kRounds = 60;
constexpr int kKills = 8;

std::vector<Line> read_log(const std::string& path) {
  std::vector<Line> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(Line::parse(line));
  return lines;
}

// Every increment in the log was made on the one before it; one whose process was killed between
// the intent and the note may or may not have been made.
std::int64_t replay(const std::vector<Line>& log, int& killed_between) {
  std::int64_t count = 0;
  std::string highest;
  for (std::size_t i = 0; i < log.size(); ++i) {
    const Line& line = log[i];
    EXPECT_NE(line.word, "violated") << "refused as late, but said it held: " << line.get("token");
    if (line.word == "enter") {
      EXPECT_GT(line.get("token"), highest);
      highest = line.get("token");
    }
    if (line.word != "intend") continue;
    const auto is_done = [&](const Line& other) {
      return other.word == "done" && other.get("token") == line.get("token");
    };
    const bool done = std::any_of(log.begin(), log.end(), is_done);
    const auto next = std::find_if(log.begin() + static_cast<std::ptrdiff_t>(i) + 1, log.end(),
                                   [](const Line& other) { return other.word == "intend"; });
    EXPECT_EQ(line.number("value"), count + 1) << "token " << line.get("token");
    const bool made = done || (next != log.end() && next->number("value") == count + 2);
    if (!done) ++killed_between;
    if (made) ++count;
  }
  return count;
}

// Nobody entered before the one before had left or reached its deadline. Workers that were
// killed inside left no note.
void expect_no_overlap(const std::vector<Line>& log) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> stays;
  for (const Line& line : log) {
    if (line.word == "enter") stays[line.get("token")] = {line.number("at"), -1};
    if (line.word == "leave") stays[line.get("token")].second = line.number("at");
  }
  std::int64_t left = 0;
  for (const auto& [token, stay] : stays) {
    EXPECT_GE(stay.first, left) << "token " << token << " entered too early";
    if (stay.second >= 0) left = stay.second;
  }
}

TEST(CounterFaultsTest, NoIncrementIsLostWhileProcessesAreKilled) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::minstd_rand dice(seed);
  const TempFolder folder;
  const std::string command = "count " + folder.file("counter") + " " + folder.file("log") +
                              " a 500 " + std::to_string(kRounds) + " " + folder.file("end");
  std::vector<std::unique_ptr<ActorProcess>> actors(kProcesses);
  for (auto& actor : actors) {
    actor = std::make_unique<ActorProcess>(folder.url());
    actor->send(command);
  }
  for (int kill = 0; kill < kKills; ++kill) {
    auto& victim = actors[dice() % kProcesses];
    // Some in the middle of the work, some anywhere.
    victim->forget_events();
    victim->event("inside");
    if (kill % 2 == 1) let_pass(milliseconds(dice() % 10));
    victim->kill();
    victim = std::make_unique<ActorProcess>(folder.url());
    victim->send(command);
  }
  std::ofstream(folder.file("end")) << "now";
  std::int64_t at_least = 0;
  for (auto& actor : actors) {
    const Line counted = actor->answer(30s);
    ASSERT_EQ(counted.word, "counted") << counted.get("text");
    at_least += counted.number("done");
  }

  const std::vector<Line> log = read_log(folder.file("log"));
  int killed_between = 0;
  const std::int64_t expected = replay(log, killed_between);
  expect_no_overlap(log);
  EXPECT_GE(expected, at_least);
  EXPECT_LE(killed_between, kKills);
  RecordProperty("killed_between", killed_between);
  std::ifstream file(folder.file("counter"));
  std::string token;
  std::int64_t value = 0;
  file >> token >> value;
  EXPECT_EQ(value, expected);
  EXPECT_GE(at_least, kProcesses * kRounds * 9 / 10) << "too many were late to show anything";
}

}  // namespace
}  // namespace holdfast::faults
