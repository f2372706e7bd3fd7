#include "src/session/reports/observer_feed.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::session {
namespace {

class Counting final : public Observer {
 public:
  void acquire_ended(const AcquireSeen& seen) override { said += "a" + seen.lock.name; }
  void hold_ended(const HoldSeen& seen) override { said += "h" + seen.lock.name; }
  void renewal_done(const RenewalSeen& seen) override { said += "r" + seen.lock.name; }
  void queue_seen(const QueueSeen& seen) override {
    ++queues;
    said = seen.lock.name;
  }
  void missed(std::size_t count) override { missed_in_all += count; }

  std::string said;
  std::size_t queues = 0;
  std::size_t missed_in_all = 0;
};

SeenLock lock_named(std::string name) { return {std::move(name), Mode::exclusive(), "memory"}; }

TEST(ObserverFeedTest, NewsAreToldInOrderByOneCall) {
  auto observer = std::make_shared<Counting>();
  ObserverFeed feed(observer);
  EXPECT_TRUE(feed.add(AcquireSeen{lock_named("1"), {}, {}, {}, {}, {}, {}}));
  EXPECT_FALSE(feed.add(RenewalSeen{lock_named("2"), {}, {}, {}}));
  EXPECT_FALSE(feed.add(HoldSeen{lock_named("3"), {}, {}, {}}));
  feed.tell();
  EXPECT_EQ(observer->said, "a1r2h3");
  EXPECT_TRUE(feed.add(HoldSeen{lock_named("4"), {}, {}, {}}));
  feed.tell();
  EXPECT_EQ(observer->said, "a1r2h3h4");
  EXPECT_EQ(observer->missed_in_all, 0U);
}

TEST(ObserverFeedTest, WhatIsTooMuchIsDroppedAndCounted) {
  auto observer = std::make_shared<Counting>();
  ObserverFeed feed(observer);
  for (std::size_t i = 0; i < Observer::kMostKept + 3; ++i) {
    feed.add(QueueSeen{lock_named("x"), 1});
  }
  feed.tell();
  EXPECT_EQ(observer->queues, Observer::kMostKept);
  EXPECT_EQ(observer->missed_in_all, 3U);
  feed.add(QueueSeen{lock_named("y"), 1});
  feed.tell();
  EXPECT_EQ(observer->missed_in_all, 3U);
  EXPECT_EQ(observer->said, "y");
}

}  // namespace
}  // namespace holdfast::session
