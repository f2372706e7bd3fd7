#include "src/stores/holdfast/event_watches.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::stores::holdfast {
namespace {

using ::testing::ElementsAre;

struct NowLoop : port::Loop {
  void post(port::Task task) override { task(); }
};

struct Listening {
  NowLoop loop;
  std::vector<std::string> asked;
  std::shared_ptr<EventWatches> watches =
      std::make_shared<EventWatches>(loop, [this](const std::string& channel, bool join) {
        asked.push_back((join ? "+" : "-") + channel);
      });
  std::vector<std::string> told;

  port::WatchHandle watch(const std::string& prefix) {
    return watches->begin(prefix, [this, prefix](const LockEvent& event) {
      const bool missed = event.kind == LockEventKind::kMissed;
      told.push_back(prefix + ":" + (missed ? "missed " : "") + event.name);
    });
  }
};

TEST(EventWatchesTest, AnEventIsRead) {
  const auto told = event_of(R"(event 2 granted 17 30000 6 a/ b c {"owner":"alice","pid":7})");
  ASSERT_TRUE(told);
  EXPECT_EQ(told->prefix, 2U);
  EXPECT_EQ(told->event.kind, LockEventKind::kGranted);
  EXPECT_EQ(told->event.name, "a/ b c");
  EXPECT_EQ(told->event.token, (Token{0, 17}));
  EXPECT_EQ(told->event.time_left, std::chrono::seconds(30));
  EXPECT_EQ(told->event.who.owner, "alice");
  for (const char* const bad :
       {"", "event", "event 0 granted 1 1 9 abc {}", "event 4 granted 1 1 3 abc {}",
        "event 0 born 1 1 3 abc {}", "event 0 granted -1 1 3 abc {}", "event 0 granted 1 1 3 abc",
        "event 0 granted 1 1 99999999999999999999 abc {}", "granted 17 abc 0123 0 30000"}) {
    EXPECT_FALSE(event_of(bad)) << bad;
  }
}

TEST(EventWatchesTest, AChannelIsAskedForOnceAndLeftAtTheEnd) {
  Listening all;
  auto first = all.watch("a/");
  auto second = all.watch("a/");
  EXPECT_THAT(all.asked, ElementsAre("+hf1:w:a/"));
  first = {};
  EXPECT_THAT(all.asked, ElementsAre("+hf1:w:a/"));
  second = {};
  EXPECT_THAT(all.asked, ElementsAre("+hf1:w:a/", "-hf1:w:a/"));
}

// The server tells a change on each channel that it belongs to.
TEST(EventWatchesTest, EachWatchHasTheEventsOfItsChannelOnly) {
  Listening all;
  const auto wide = all.watch("");
  const auto narrow = all.watch("a/");
  EXPECT_TRUE(all.watches->on_event("event 0 released 1 0 3 a/b {}"));
  EXPECT_TRUE(all.watches->on_event("event 2 released 1 0 3 a/b {}"));
  EXPECT_FALSE(all.watches->on_event("value hf1:{a/b}:v"));
  EXPECT_THAT(all.told, ElementsAre(":a/b", "a/:a/b"));
}

TEST(EventWatchesTest, ALossIsToldOnceAndBeforeWhatFollows) {
  Listening all;
  const auto old = all.watch("a/");
  all.watches->joined("hf1:w:a/");
  EXPECT_THAT(all.told, ElementsAre()) << "nothing was lost before";
  all.watches->lost();
  all.watches->lost();
  const auto later = all.watch("a/");
  all.watches->joined("hf1:w:b/");
  all.watches->joined("hf1:w:a/");
  all.watches->on_event("event 2 queued 0 0 3 a/b {}");
  EXPECT_THAT(all.told, ElementsAre("a/:missed a/", "a/:a/b", "a/:a/b"));
}

TEST(EventWatchesTest, AServerThatConfirmsTooLateIsALossOfThatWatchAlone) {
  Listening all;
  const auto confirmed = all.watch("a/");
  const auto late = all.watch("b/");
  all.watches->miss(late);
  all.watches->joined("hf1:w:a/");
  all.watches->joined("hf1:w:b/");
  all.watches->joined("hf1:w:b/");
  EXPECT_THAT(all.told, ElementsAre("b/:missed b/"));
}

TEST(EventWatchesTest, AHandleMayOutliveTheWatches) {
  Listening all;
  const auto handle = all.watch("a/");
  all.watches = nullptr;
}

}  // namespace
}  // namespace holdfast::stores::holdfast
