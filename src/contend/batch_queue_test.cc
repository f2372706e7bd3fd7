#include "src/contend/batch_queue.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::contend {
namespace {

using namespace std::chrono_literals;
using base::BootInstant;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr BootInstant kNow{100s};
constexpr BootInstant kLater{110s};

// Parts are named by a letter, and so are their locks.
class BatchQueueTest : public testing::Test {
 protected:
  using Parts = std::vector<std::string>;

  void add(const std::string& part, BootInstant deadline = kLater, std::size_t bytes = 1) {
    queue_.add(part.substr(0, 1), deadline, bytes, part);
  }
  Parts take(BootInstant now = kNow) {
    auto call = queue_.take(now, late_);
    if (!call.parts.empty()) last_ = call.deadline;
    return call.parts;
  }

  BatchQueue<std::string> queue_{{.parts = 3, .bytes = 100, .calls = 2}};
  Parts late_;
  BootInstant last_;  // The deadline of the last call.
};

TEST_F(BatchQueueTest, ALoneRequestGoesAtOnce) {
  EXPECT_THAT(take(), IsEmpty());
  add("a");
  EXPECT_THAT(take(), ElementsAre("a"));
  EXPECT_THAT(take(), IsEmpty());
}

TEST_F(BatchQueueTest, WhatWasAddedInATurnGoesTogether) {
  add("a");
  add("b");
  EXPECT_THAT(take(), ElementsAre("a", "b"));
}

TEST_F(BatchQueueTest, WhileAFewAreUnansweredOthersGather) {
  for (const char* part : {"a", "b"}) {
    add(part);
    EXPECT_THAT(take(), ElementsAre(part));
  }
  add("c");
  EXPECT_THAT(take(), IsEmpty());
  add("d");
  EXPECT_THAT(take(), IsEmpty());
  queue_.answered(last_);
  EXPECT_THAT(take(), ElementsAre("c", "d"));
}

TEST_F(BatchQueueTest, WhatFillsACallDoesNotWaitForAnAnswer) {
  for (const char* part : {"a", "b"}) {
    add(part);
    EXPECT_THAT(take(), SizeIs(1));
  }
  for (const char* part : {"c", "d", "e", "f"}) add(part);
  EXPECT_THAT(take(), ElementsAre("c", "d", "e"));
  EXPECT_THAT(take(), IsEmpty());
  EXPECT_EQ(queue_.waiting(), 1U);
}

TEST_F(BatchQueueTest, WhatSomethingElseIsToFollowGoesAnyway) {
  for (const char* part : {"a", "b"}) {
    add(part);
    EXPECT_THAT(take(), SizeIs(1));
  }
  for (const char* part : {"c1", "d", "c2"}) add(part);
  EXPECT_TRUE(queue_.waits("c"));
  EXPECT_FALSE(queue_.waits("a")) << "it was sent";
  EXPECT_THAT(queue_.take_anyway(kNow, late_).parts, ElementsAre("c1", "d"));
  EXPECT_TRUE(queue_.waits("c"));
  EXPECT_THAT(queue_.take_anyway(kNow, late_).parts, ElementsAre("c2"));
  EXPECT_FALSE(queue_.waits("c"));
  EXPECT_THAT(queue_.take_anyway(kNow, late_).parts, IsEmpty());
}

TEST_F(BatchQueueTest, OneLockIsInACallOnceAndItsOrderStays) {
  for (const char* part : {"a1", "a2", "b1", "a3", "b2"}) add(part);
  EXPECT_THAT(take(), ElementsAre("a1", "b1"));
  EXPECT_THAT(take(), ElementsAre("a2", "b2"));
  queue_.answered(kLater);
  EXPECT_THAT(take(), ElementsAre("a3"));
}

TEST_F(BatchQueueTest, ACallEndsByTheEarliestDeadline) {
  add("a", kNow + 5s);
  add("b", kNow + 4s);
  add("c", kNow + 6s);
  EXPECT_THAT(take(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(last_, kNow + 4s);
}

TEST_F(BatchQueueTest, DeadlinesThatAreNotAlikeGoApart) {
  add("a1", kNow + 10s);
  add("b1", kNow + 4s);
  add("c1", kNow + 5s);
  add("b2", kNow + 10s);
  EXPECT_THAT(take(), ElementsAre("a1", "c1")) << "b1 goes before b2";
  EXPECT_THAT(take(), ElementsAre("b1"));
  queue_.answered(kNow + 4s);
  EXPECT_THAT(take(), ElementsAre("b2"));
}

TEST_F(BatchQueueTest, NobodyWaitsForAnAnswerThatMayComePastItsDeadline) {
  for (const char* part : {"a", "b"}) {
    add(part);
    EXPECT_THAT(take(), SizeIs(1));
  }
  add("c", kLater + 1s);
  EXPECT_THAT(take(), IsEmpty());
  add("d", kLater - 1s);
  EXPECT_THAT(take(), ElementsAre("c", "d"));
}

TEST_F(BatchQueueTest, WhatIsLateIsNotSentAndHoldsUpNobody) {
  add("a1", kNow);
  add("b");
  add("a2");
  EXPECT_THAT(take(), ElementsAre("b", "a2"));
  EXPECT_THAT(late_, ElementsAre("a1"));
}

TEST_F(BatchQueueTest, ACallHoldsSoManyBytesAtMost) {
  add("a", kLater, 60);
  add("b", kLater, 60);
  add("c", kLater, 40);
  EXPECT_THAT(take(), ElementsAre("a", "c"));
  EXPECT_THAT(take(), ElementsAre("b"));
}

TEST_F(BatchQueueTest, WhatIsLargerThanACallGoesByItself) {
  add("a", kLater, 1000);
  add("b", kLater, 1);
  EXPECT_THAT(take(), ElementsAre("a"));
  EXPECT_THAT(take(), ElementsAre("b"));
}

TEST_F(BatchQueueTest, AStoreThatTakesFewerGetsFewer) {
  queue_.limit_parts(1);
  for (const char* part : {"a", "b", "c"}) add(part);
  EXPECT_THAT(take(), ElementsAre("a"));
  EXPECT_THAT(take(), ElementsAre("b"));
  EXPECT_THAT(take(), ElementsAre("c")) << "each fills a call";
  queue_.limit_parts(0);
  add("d");
  EXPECT_THAT(take(), ElementsAre("d"));
}

TEST_F(BatchQueueTest, ALongQueueIsLookedThroughInPartsOnly) {
  for (int i = 0; i < 1000; ++i) add("a");
  add("b");
  EXPECT_THAT(take(), ElementsAre("a")) << "b was out of sight";
  EXPECT_EQ(queue_.waiting(), 1000U);
}

}  // namespace
}  // namespace holdfast::contend
