#include "lab/history/text.h"

#include <sstream>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/machine/testing/dice.h"

namespace holdfast::lab {
namespace {

using machine::testing::Dice;
using ::testing::HasSubstr;

const std::string kHead = "holdfast-history 1\nlock a name with spaces\ntarget redis-1\n";

Result<History> read_text(const std::string& text) {
  std::istringstream in(text);
  return read(in);
}

Event any_event(Dice& dice, std::int64_t at) {
  Event event;
  event.at_ns = at;
  event.kind = static_cast<Kind>(dice.below(9));
  event.phase = event.kind == Kind::kLost || event.kind == Kind::kDeath
                    ? Phase::kMark
                    : static_cast<Phase>(1 + dice.below(2));
  event.process = static_cast<std::uint32_t>(dice.draw());
  event.owner = static_cast<std::uint32_t>(dice.below(3));
  event.call = 1 + dice.below(1000);
  event.outcome = static_cast<Outcome>(dice.below(13));
  event.mode = static_cast<ModeKind>(dice.below(3));
  event.fault = static_cast<FaultKind>(dice.below(17));
  event.lock = static_cast<std::uint32_t>(dice.below(2));
  event.target = static_cast<std::uint32_t>(dice.below(2));
  event.count = static_cast<std::uint32_t>(dice.draw());
  event.capacity = static_cast<std::uint32_t>(dice.below(3));
  event.id = {dice.draw(), dice.below(2)};
  event.token = {static_cast<std::uint32_t>(dice.draw()), dice.draw()};
  event.seen = {0, dice.below(2)};
  event.ttl_ns = static_cast<std::int64_t>(dice.draw());
  event.wait_ns = static_cast<std::int64_t>(dice.below(2));
  event.deadline_ns = static_cast<std::int64_t>(dice.draw());
  event.sequence = dice.draw();
  return event;
}

TEST(HistoryTextTest, WhatIsWrittenIsReadBackEqual) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Dice dice(seed);
    History history;
    history.locks = {"orders/42", "a name = with # oddities"};
    history.targets = {"redis-1", "client 3"};
    if (dice.one_in(2)) history.limits = {5, 7, dice.one_in(2), 3, dice.one_in(2), dice.one_in(2)};
    std::int64_t at = -100;
    for (int i = 0; i < 20; ++i) {
      at += static_cast<std::int64_t>(dice.below(3));
      history.events.push_back(any_event(dice, at));
    }
    std::ostringstream out;
    write(history, out);
    Result<History> back = read_text(out.str());
    ASSERT_TRUE(back.has_value()) << "seed " << seed << ": " << back.error().message();
    ASSERT_EQ(*back, history) << "seed " << seed;
  }
}

TEST(HistoryTextTest, EmptyLinesAndCommentsMeanNothing) {
  Result<History> history =
      read_text("# a run\n\n" + kHead + "\n# here\n5 death mark p=3\nend 1\n# there\n\n");
  ASSERT_TRUE(history.has_value()) << history.error().message();
  ASSERT_EQ(history->events.size(), 1U);
  EXPECT_EQ(history->events[0].process, 3U);
}

TEST(HistoryTextTest, AMalformedLineIsRefusedWithItsNumber) {
  const std::pair<std::string, std::string> cases[] = {
      {"x acquire invoke call=1", "stamp"},
      {"5", "kind"},
      {"5 grab invoke call=1", "kind"},
      {"5 acquire begin call=1", "phase"},
      {"5 acquire mark call=1", "phase"},
      {"5 death invoke", "phase"},
      {"5 acquire invoke", "without a number"},
      {"5 acquire invoke call=1 call=1", "twice"},
      {"5 acquire invoke call=", "bad value"},
      {"5 acquire invoke call=1x", "bad value"},
      {"5 acquire invoke call=99999999999999999999", "bad value"},
      {"5 acquire invoke call=1 colour=red", "unknown field"},
      {"5 acquire invoke call=1 red", "key=value"},
      {"5 acquire invoke call=1 id=12", "bad value"},
      {"5 acquire invoke call=1 token=12", "bad value"},
      {"5 acquire invoke call=1 mode=greedy", "bad value"},
      {"5 acquire invoke call=1 lock=1", "has no name"},
      {"5 fault invoke target=1", "has no name"},
      {"5  acquire invoke call=1", "kind"},
      {"5 death mark\n4 death mark", "earlier"},
      {"5 death mark\nlock late", "after the first event"},
      {"lock ", "without a name"},
      {"limits 1 2 maybe", "limits WAKE GRACE"},
      {"limits 1 -2 yes", "limits WAKE GRACE"},
      {"limits 1 2", "limits WAKE GRACE"},
      {"limits 1 2 yes 3 4", "limits WAKE GRACE"},
      {"limits 1 2 yes -3", "limits WAKE GRACE"},
      {"limits 1 2 yes 3 extend", "limits WAKE GRACE"},
      {"limits 1 2 yes 3 unfenced extends", "limits WAKE GRACE"},
      {"limits 1 2 yes\nlimits 1 2 yes", "limits twice"},
      {"5 death mark\nlimits 1 2 yes", "limits after the first event"},
  };
  for (const auto& [line, why] : cases) {
    Result<History> history = read_text(kHead + line + "\n");
    ASSERT_FALSE(history.has_value()) << line;
    EXPECT_THAT(history.error().message(), HasSubstr(why)) << line;
    const bool second = line.find('\n') != std::string::npos;
    EXPECT_THAT(history.error().message(), HasSubstr(second ? "line 5:" : "line 4:")) << line;
  }
}

TEST(HistoryTextTest, WhatLostItsTailIsRefused) {
  const std::string whole = kHead + "5 death mark p=3\n6 death mark p=12\nend 2\n";
  ASSERT_TRUE(read_text(whole));
  // Without its last line end it is whole.
  for (std::size_t length = kHead.size(); length < whole.size() - 1; ++length) {
    EXPECT_FALSE(read_text(whole.substr(0, length))) << whole.substr(0, length);
  }
  EXPECT_FALSE(read_text(kHead + "5 death mark p=3\nend 2\n"));
  EXPECT_FALSE(read_text(whole + "7 death mark p=13\n"));
}

TEST(HistoryTextTest, OtherFilesAndVersionsAreRefused) {
  EXPECT_EQ(read_text("").error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(read_text("5 death mark\n").error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(read_text("holdfast-history 2\n").error().code(), Errc::kVersionMismatch);
}

TEST(HistoryTextTest, ALineIsNotReadForEver) {
  const std::string whole = kHead + "5 death mark p=3\n";
  EXPECT_TRUE(read_text(whole + "#" + std::string(kLongestLine - 1, 'x') + "\nend 1\n"));
  EXPECT_TRUE(read_text(whole + "end 1\n#" + std::string(kLongestLine - 1, 'x')));
  EXPECT_TRUE(read_text(whole + "\n\nend 1"));
  const auto refused = read_text(whole + "#" + std::string(kLongestLine, 'x') + "\nend 1\n");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("a line of more than 64 KiB"), std::string::npos);
}

TEST(HistoryTextTest, EveryEnumeratorHasAWordOfItsOwn) {
  for (int i = 0; i < 17; ++i) {
    EXPECT_EQ(named<FaultKind>(name_of(static_cast<FaultKind>(i))), static_cast<FaultKind>(i));
  }
  EXPECT_EQ(name_of(FaultKind::kStarve), "starve");
  EXPECT_EQ(name_of(Outcome::kRefused), "refused");
  EXPECT_EQ(name_of(Kind::kDeath), "death");
}

}  // namespace
}  // namespace holdfast::lab
