#include "src/cli/look/top_table.h"

#include <gtest/gtest.h>

#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

const auto kNow = std::chrono::system_clock::time_point(std::chrono::hours(480'000));

OwnerInfo who(const std::string& program, std::chrono::seconds ago) {
  OwnerInfo owner;
  owner.owner = "host/1/abc";
  owner.host = "vm1";
  owner.pid = 4711;
  owner.program = program;
  owner.since = kNow - ago;
  return owner;
}

LockInfo lock(const std::string& name, std::chrono::seconds held, std::chrono::seconds left,
              std::size_t waiters) {
  LockInfo info;
  info.name = name;
  info.holders.push_back({who("holder", held), Mode::exclusive(), {0, 17}, left});
  for (std::size_t i = 0; i < waiters; ++i) {
    info.waiters.push_back({who("waiter", held / 2), Mode::shared(), 5s});
  }
  return info;
}

std::vector<std::string> names(const std::vector<TopRow>& rows) {
  std::vector<std::string> out;
  out.reserve(rows.size());
  for (const TopRow& row : rows) out.push_back(row.name + " " + row.what);
  return out;
}

TEST(TopTableTest, HoldersStandBeforeTheirWaiters) {
  const auto rows = top_rows({lock("a", 125s, 28s, 2)}, TopSort::kName, kNow);
  EXPECT_EQ(names(rows), (std::vector<std::string>{"a holds", "a waits 1", "a waits 2"}));
  EXPECT_EQ(rows[0].age, "2m05s");
  EXPECT_EQ(rows[0].left, "28s");
  EXPECT_EQ(rows[0].token, "0000000000.00000000000000000017");
  EXPECT_EQ(rows[0].queue, "2");
  EXPECT_EQ(rows[0].mode, "exclusive");
  EXPECT_EQ(rows[1].age, "1m02s");
  EXPECT_EQ(rows[1].mode, "shared");
  EXPECT_EQ(rows[1].left, "-");
  EXPECT_EQ(rows[1].token, "-");
}

TEST(TopTableTest, ALockThatOnlyALockDelayKeepsClosedIsNotCalledHeld) {
  LockInfo closed = lock("a", 125s, 28s, 0);
  closed.holders.front().lock_delay = 50s;
  EXPECT_EQ(names(top_rows({closed}, TopSort::kName, kNow)),
            (std::vector<std::string>{"a lock-delay"}));
}

TEST(TopTableTest, EveryOrderPutsItsOwnFirst) {
  const std::vector<LockInfo> locks{lock("b", 100s, 20s, 0), lock("a", 50s, 30s, 1),
                                    lock("c", 200s, 10s, 3)};
  const auto first = [&](TopSort sort) { return top_rows(locks, sort, kNow).front().name; };
  EXPECT_EQ(first(TopSort::kName), "a");
  EXPECT_EQ(first(TopSort::kQueue), "c");
  EXPECT_EQ(first(TopSort::kAge), "c");
  EXPECT_EQ(first(TopSort::kLeft), "c");
  EXPECT_EQ(top_rows(locks, TopSort::kQueue, kNow).back().name, "b");
  EXPECT_EQ(top_rows(locks, TopSort::kAge, kNow).back().name, "a");
  EXPECT_EQ(top_rows(locks, TopSort::kLeft, kNow).back().name, "a");
}

TEST(TopTableTest, AllOrdersComeInTurn) {
  TopSort sort = TopSort::kName;
  for (const char* next : {"queue", "age", "left", "name"}) {
    sort = next_sort(sort);
    EXPECT_EQ(sort_word(sort), next);
  }
}

TEST(TopTableTest, AClockThatIsAheadMakesNobodyWaitLessThanNothing) {
  LockInfo info = lock("a", 0s, 1s, 0);
  info.holders[0].who.since = kNow + 1h;
  EXPECT_EQ(top_rows({info}, TopSort::kAge, kNow)[0].age, "0ms");
}

TEST(TopTableTest, ForeignTextIsMadeSafe) {
  LockInfo info = lock("a", 1s, 1s, 0);
  info.holders[0].who.reason = "\033[2Jgone\n";
  info.holders[0].who.program = "\x9b";
  info.holders[0].who.host = "h\r";
  info.holders[0].who.trace_id = "t\t";
  for (const std::string& line : top_lines(top_rows({info}, TopSort::kName, kNow), 0)) {
    EXPECT_EQ(printable(line), line);
    EXPECT_EQ(line.find('\n'), line.npos);
  }
}

TEST(TopTableTest, NoLineIsWiderThanTheTerminalAndTheNameStaysLongest) {
  LockInfo info = lock(
      "stock/\xc3\xbc"
      "ber",
      125s, 28s, 1);
  info.holders[0].who.reason = std::string(300, 'r');
  const auto rows = top_rows({info, lock(std::string(256, 'n'), 1s, 1s, 0)}, TopSort::kName, kNow);
  for (std::size_t width = 1; width < 200; ++width) {
    const auto lines = top_lines(rows, width);
    ASSERT_EQ(lines.size(), 4U);
    for (const std::string& line : lines) EXPECT_LE(columns(line), width) << line;
    EXPECT_TRUE(std::string("NAME").starts_with(lines[0].substr(0, 4))) << lines[0];
  }
  EXPECT_NE(top_lines(rows, 200)[0].find("REASON"), std::string::npos);
  const std::string narrow = top_lines(rows, 80)[0];
  EXPECT_EQ(narrow.find("REASON"), std::string::npos);
  EXPECT_NE(narrow.find("WHO"), std::string::npos);
  // Without a width nothing is cut.
  EXPECT_NE(top_lines(rows, 0)[2].find(std::string(300, 'r')), std::string::npos);
}

TEST(TopTableTest, ClippedKeepsWholeCodePoints) {
  EXPECT_EQ(clipped("a\xc3\xbc"
                    "b",
                    2),
            "a\xc3\xbc");
  EXPECT_EQ(clipped("abc", 0), "");
  EXPECT_EQ(clipped("\u62a5\u8868", 3), "\u62a5") << "half a code point is not shown";
  EXPECT_EQ(clipped("abc", 5), "abc");
}

TEST(TopTableTest, TheSummaryCountsHoldersAndWaiters) {
  const TopSummary sum = summary_of({lock("a", 1s, 1s, 2), lock("b", 1s, 1s, 0)});
  EXPECT_EQ(sum.locks, 2U);
  EXPECT_EQ(sum.holders, 2U);
  EXPECT_EQ(sum.waiters, 2U);
}

}  // namespace
}  // namespace holdfast::cli
