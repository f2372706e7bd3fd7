#include "src/stores/zookeeper/sole_user_cache.h"

#include <gtest/gtest.h>

namespace holdfast::stores::zookeeper {
namespace {

constexpr char kLock[] = "orders";

// Watched, seen alone as number 7, and that one removed.
void make_free_after_seven(SoleUserCache& lonely) {
  EXPECT_EQ(lonely.wants_watch(kLock), nullptr);
  EXPECT_NE(lonely.wants_watch(kLock), nullptr);
  lonely.seen_alone(kLock, 7);
  lonely.removed(kLock, 7);
}

TEST(ZookeeperLonelyTest, TheNextNumberInAFreeFolderIsAlone) {
  SoleUserCache lonely;
  make_free_after_seven(lonely);
  ASSERT_TRUE(lonely.is_free(kLock));
  EXPECT_TRUE(lonely.created(kLock, 8));
  EXPECT_FALSE(lonely.is_free(kLock));
  lonely.removed(kLock, 8);
  ASSERT_TRUE(lonely.is_free(kLock));
  EXPECT_TRUE(lonely.created(kLock, 9));
}

TEST(ZookeeperLonelyTest, AnyOtherNumberIsNot) {
  for (const std::uint32_t number : {7U, 9U, 0U}) {
    SoleUserCache lonely;
    make_free_after_seven(lonely);
    EXPECT_FALSE(lonely.created(kLock, number));
    lonely.removed(kLock, number);
    EXPECT_FALSE(lonely.is_free(kLock));
  }
}

TEST(ZookeeperLonelyTest, TheNumberWrapsAround) {
  SoleUserCache lonely;
  lonely.wants_watch(kLock);
  lonely.wants_watch(kLock);
  lonely.seen_alone(kLock, UINT32_MAX);
  lonely.removed(kLock, UINT32_MAX);
  EXPECT_TRUE(lonely.created(kLock, 0));
}

TEST(ZookeeperLonelyTest, WhoStillStandsThereIsNotAlone) {
  SoleUserCache lonely;
  lonely.wants_watch(kLock);
  lonely.wants_watch(kLock);
  lonely.seen_alone(kLock, 7);
  EXPECT_FALSE(lonely.is_free(kLock));
  EXPECT_FALSE(lonely.created(kLock, 8));
  // The first one's removal says nothing any more: 8 stands there.
  lonely.removed(kLock, 7);
  EXPECT_FALSE(lonely.is_free(kLock));
}

TEST(ZookeeperLonelyTest, AFolderIsMadeAheadWhereTheLastNewNameHadNone) {
  SoleUserCache lonely;
  EXPECT_FALSE(lonely.expects_no_folder(kLock));
  lonely.found_folder(false);
  EXPECT_TRUE(lonely.expects_no_folder(kLock));
  EXPECT_EQ(lonely.wants_watch(kLock), nullptr);
  EXPECT_FALSE(lonely.expects_no_folder(kLock));  // It is not new to this client any more.
  EXPECT_TRUE(lonely.expects_no_folder("another"));
  lonely.found_folder(true);
  EXPECT_FALSE(lonely.expects_no_folder("another"));
}

TEST(ZookeeperLonelyTest, WithoutAWatchNothingIsKnown) {
  SoleUserCache lonely;
  EXPECT_EQ(lonely.wants_watch(kLock), nullptr);
  lonely.seen_alone(kLock, 7);
  lonely.removed(kLock, 7);
  EXPECT_FALSE(lonely.is_free(kLock));
  const auto waker = lonely.wants_watch(kLock);
  lonely.no_watch(kLock, waker);
  lonely.seen_alone(kLock, 7);
  lonely.removed(kLock, 7);
  EXPECT_FALSE(lonely.is_free(kLock));
}

TEST(ZookeeperLonelyTest, TheEndOfTheFolderEndsWhatIsKnown) {
  SoleUserCache lonely;
  lonely.wants_watch(kLock);
  const auto waker = lonely.wants_watch(kLock);
  ASSERT_NE(waker, nullptr);
  lonely.seen_alone(kLock, 7);
  lonely.removed(kLock, 7);
  waker->wake();
  EXPECT_FALSE(lonely.is_free(kLock));
  EXPECT_FALSE(lonely.created(kLock, 8));
}

TEST(ZookeeperLonelyTest, AnotherConnectionOrSessionEndsIt) {
  SoleUserCache lonely;
  make_free_after_seven(lonely);
  lonely.set_connection(0, 1);
  EXPECT_FALSE(lonely.is_free(kLock));
  EXPECT_EQ(lonely.wants_watch(kLock), nullptr);  // The library keeps its watches.
  lonely.seen_alone(kLock, 8);
  lonely.removed(kLock, 8);
  EXPECT_TRUE(lonely.is_free(kLock));
  lonely.set_connection(1, 1);
  EXPECT_FALSE(lonely.is_free(kLock));
}

}  // namespace
}  // namespace holdfast::stores::zookeeper
