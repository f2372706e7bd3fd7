// Readers and writers through the public API.
#include <mutex>
#include <shared_mutex>

#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

class SharedMutexTest : public LibraryTest {
 protected:
  SharedMutex a() { return one().shared_mutex("doc"); }
  SharedMutex b() { return two().shared_mutex("doc"); }
};

TEST_P(SharedMutexTest, ReadersHoldTogetherAndKeepWritersOut) {
  const Lease first = a().acquire_shared().value();
  const Lease second = b().acquire_shared().value();
  EXPECT_TRUE(first.held() && second.held());
  EXPECT_EQ(first.mode(), Mode::shared());
  EXPECT_FALSE(b().try_acquire().value());
}

TEST_P(SharedMutexTest, AWriterKeepsReadersOut) {
  const Lease writer = a().acquire().value();
  EXPECT_EQ(writer.mode(), Mode::exclusive());
  EXPECT_FALSE(b().try_acquire_shared().value());
  EXPECT_TRUE(fails_with(b().acquire_shared({.wait = 20ms}), Errc::kTimedOut));
}

TEST_P(SharedMutexTest, ReadersThatComeLaterDoNotStarveAWriter) {
  Lease reader = a().acquire_shared().value();
  std::promise<void> queued;
  auto writing = std::async(std::launch::async, [&] {
    return b().acquire(
        {.wait = kPatience, .on_queued = [&](std::uint32_t) { queued.set_value(); }});
  });
  ASSERT_EQ(queued.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(a().try_acquire_shared().value());
  EXPECT_TRUE(reader.release());
  EXPECT_TRUE(writing.get());
}

TEST_P(SharedMutexTest, TheOnlyReaderUpgradesAndGoesBackToReading) {
  const Lease reader = a().acquire_shared().value();
  {
    const Lease writer = a().upgrade(reader).value();
    EXPECT_TRUE(writer.held());
    EXPECT_GT(writer.token(), reader.token());
    EXPECT_LE(writer.deadline_boottime(), reader.deadline_boottime());
    EXPECT_FALSE(b().try_acquire_shared().value());
    EXPECT_TRUE(reader.held());
    Lease same = std::move(const_cast<Lease&>(writer));
    EXPECT_TRUE(same.release());
  }
  EXPECT_TRUE(reader.held());
  EXPECT_TRUE(b().try_acquire_shared().value());
  EXPECT_FALSE(b().try_acquire().value());
}

TEST_P(SharedMutexTest, AnUpgradeWaitsForTheOtherReaders) {
  const Lease reader = a().acquire_shared().value();
  Lease other = b().acquire_shared().value();
  EXPECT_FALSE(a().try_upgrade(reader).value());
  EXPECT_TRUE(fails_with(a().upgrade(reader, {.wait = 20ms}), Errc::kTimedOut));
  std::promise<void> queued;
  auto upgrading = std::async(std::launch::async, [&] {
    return a().upgrade(
        reader, {.wait = kPatience, .on_queued = [&](std::uint32_t) { queued.set_value(); }});
  });
  ASSERT_EQ(queued.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(other.release());
  const auto writer = upgrading.get();
  ASSERT_TRUE(writer) << writer.error().message();
  EXPECT_TRUE(writer->held());
}

TEST_P(SharedMutexTest, OfTwoReadersThatUpgradeOneIsToldThatItWouldDeadlock) {
  Lease reader = a().acquire_shared().value();
  Lease other = b().acquire_shared().value();
  std::promise<void> queued;
  auto upgrading = std::async(std::launch::async, [&] {
    return a().upgrade(
        reader, {.wait = kPatience, .on_queued = [&](std::uint32_t) { queued.set_value(); }});
  });
  ASSERT_EQ(queued.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(fails_with(b().upgrade(other), Errc::kWouldDeadlock));
  EXPECT_TRUE(other.release());
  EXPECT_TRUE(upgrading.get());
}

TEST_P(SharedMutexTest, WhoUpgradesOneReaderTwiceIsNotToldOfAnotherReaderOnly) {
  const Lease reader = a().acquire_shared().value();
  const Lease writer = a().upgrade(reader).value();
  const auto again = a().upgrade(reader);
  ASSERT_TRUE(fails_with(again, Errc::kWouldDeadlock));
  EXPECT_NE(again.error().message().find("of this reader by another call"), std::string::npos)
      << again.error().message();
}

TEST_P(SharedMutexTest, GivingTheReadersLeaseBackEndsTheUpgrade) {
  Lease reader = a().acquire_shared().value();
  const Lease writer = a().upgrade(reader).value();
  EXPECT_TRUE(reader.release());
  EXPECT_FALSE(writer.held());
  EXPECT_TRUE(b().try_acquire().value());
}

TEST_P(SharedMutexTest, AnUpgradeIsLostWithTheReadersLease) {
  const Lease reader = a().acquire_shared({.ttl = 300ms, .auto_renew = false}).value();
  const Lease writer = a().upgrade(reader, {.ttl = 30s}).value();
  EXPECT_LE(writer.remaining(), 300ms);
  EXPECT_TRUE(fires(writer.lost()));
  EXPECT_FALSE(writer.held());
  ASSERT_TRUE(writer.loss());
  EXPECT_EQ(writer.loss()->code(), Errc::kLost);
}

TEST_P(SharedMutexTest, ALeaseThatHasEndedOrIsAnothersCannotBeUpgraded) {
  Lease ended = a().acquire_shared().value();
  EXPECT_TRUE(ended.release());
  EXPECT_TRUE(fails_with(a().upgrade(ended), Errc::kLost));
  const Lease elsewhere = one().shared_mutex("other").acquire_shared().value();
  EXPECT_TRUE(fails_with(a().upgrade(elsewhere), Errc::kInvalidArgument));
  const Lease foreign = b().acquire_shared().value();
  EXPECT_TRUE(fails_with(a().upgrade(foreign), Errc::kInvalidArgument));
  const Lease writer = one().shared_mutex("third").acquire().value();
  EXPECT_TRUE(fails_with(one().shared_mutex("third").upgrade(writer), Errc::kInvalidArgument));
}

TEST_P(SharedMutexTest, ADowngradeLetsTheReadersIn) {
  Lease writer = a().acquire().value();
  const Token token = writer.token();
  std::promise<void> queued;
  auto reading = std::async(std::launch::async, [&] {
    return b().acquire_shared(
        {.wait = kPatience, .on_queued = [&](std::uint32_t) { queued.set_value(); }});
  });
  ASSERT_EQ(queued.get_future().wait_for(kPatience), std::future_status::ready);
  ASSERT_TRUE(a().downgrade(writer));
  EXPECT_TRUE(reading.get());
  EXPECT_TRUE(writer.held());
  EXPECT_EQ(writer.mode(), Mode::shared());
  EXPECT_EQ(writer.token(), token);
  EXPECT_TRUE(a().downgrade(writer));
  EXPECT_TRUE(writer.renew());
}

TEST_P(SharedMutexTest, ADowngradedUpgradeIsGivenBack) {
  const Lease reader = a().acquire_shared().value();
  Lease writer = a().upgrade(reader).value();
  EXPECT_TRUE(a().downgrade(writer));
  EXPECT_FALSE(writer.held());
  EXPECT_TRUE(reader.held());
  EXPECT_TRUE(b().try_acquire_shared().value());
}

TEST_P(SharedMutexTest, ADowngradeAfterTheLossIsRefused) {
  Lease writer = a().acquire({.ttl = 30s}).value();
  ASSERT_TRUE(two().break_lock("doc", writer.token()));
  EXPECT_TRUE(fails_with(a().downgrade(writer), Errc::kLost));
  EXPECT_TRUE(fires(writer.lost()));
}

TEST_P(SharedMutexTest, SpeaksTheStandardsVocabulary) {
  SharedMutex mine = a();
  SharedMutex others = b();
  {
    const std::shared_lock reading(mine);
    EXPECT_TRUE(others.try_lock_shared());
    others.unlock_shared();
    EXPECT_FALSE(others.try_lock_for(5ms));
    EXPECT_EQ(mine.lease()->mode(), Mode::shared());
  }
  const std::unique_lock writing(mine);
  EXPECT_FALSE(others.try_lock_shared_for(5ms));
  EXPECT_FALSE(others.try_lock_shared_until(std::chrono::steady_clock::now() + 5ms));
  // Long ago: the difference to now would overflow.
  EXPECT_FALSE(others.try_lock_shared_until(std::chrono::steady_clock::time_point::min()));
  EXPECT_FALSE(others.try_lock_until(std::chrono::steady_clock::time_point::min()));
  EXPECT_FALSE(others.try_lock());
}

HOLDFAST_ON_EVERY_STORE(SharedMutexTest);

class SemaphoreTest : public LibraryTest {
 protected:
  Semaphore a() { return one().semaphore("slots", 3); }
  Semaphore b() { return two().semaphore("slots", 3); }
};

TEST_P(SemaphoreTest, GivesOutNoMoreThanThereAre) {
  const Lease two = a().acquire(2).value();
  const Lease one = b().acquire().value();
  EXPECT_EQ(two.mode(), Mode::permits(2, 3));
  EXPECT_FALSE(b().try_acquire().value());
  const auto count = a().count();
  ASSERT_TRUE(count);
  EXPECT_EQ(count->capacity, 3U);
  EXPECT_EQ(count->taken, 3U);
  EXPECT_EQ(count->available(), 0U);
}

TEST_P(SemaphoreTest, ALargeRequestIsNotOvertakenBySmallOnes) {
  Lease one = a().acquire().value();
  std::promise<void> queued;
  auto large = std::async(std::launch::async, [&] {
    return b().acquire(
        3, {.wait = kPatience, .on_queued = [&](std::uint32_t) { queued.set_value(); }});
  });
  ASSERT_EQ(queued.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(a().try_acquire().value());
  EXPECT_EQ(a().count()->waiting, 1U);
  EXPECT_TRUE(one.release());
  EXPECT_TRUE(large.get());
}

TEST_P(SemaphoreTest, RefusesWhatCannotBe) {
  EXPECT_TRUE(fails_with(a().acquire(0), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(a().acquire(4), Errc::kInvalidArgument));
  const Lease held = a().acquire().value();
  EXPECT_TRUE(fails_with(two().semaphore("slots", 5).acquire(), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(a().resize(0), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(one().semaphore("unused", 2).resize(3), Errc::kLost));
}

TEST_P(SemaphoreTest, GrowsAtOnce) {
  Semaphore mine = a();
  const Lease all = mine.acquire(3).value();
  EXPECT_TRUE(mine.resize(4).value());
  EXPECT_EQ(mine.capacity(), 4U);
  EXPECT_TRUE(mine.try_acquire().value());
  EXPECT_TRUE(fails_with(b().try_acquire(), Errc::kInvalidArgument));
}

TEST_P(SemaphoreTest, ShrinksWhenPermitsHaveComeBack) {
  Semaphore mine = a();
  Lease two = mine.acquire(2).value();
  const Lease one = mine.acquire().value();
  EXPECT_FALSE(mine.resize(1).value());
  EXPECT_EQ(b().count()->capacity, 3U);
  EXPECT_TRUE(two.release());
  EXPECT_EQ(b().count()->capacity, 1U);
  EXPECT_FALSE(mine.try_acquire().value());
}

TEST_P(SemaphoreTest, WhileItIsToShrinkItsHandleGoesByWhatIsInForce) {
  Semaphore mine = a();
  Lease two = mine.acquire(2).value();
  Lease one = mine.acquire().value();
  ASSERT_FALSE(mine.resize(2).value());
  EXPECT_FALSE(mine.try_acquire().value());  // Behind the one that takes a permit away.
  EXPECT_TRUE(fails_with(mine.acquire(3), Errc::kInvalidArgument));
  std::promise<void> queued;
  AcquireOptions options{.wait = kPatience};
  options.on_queued = [&](std::uint32_t) { queued.set_value(); };
  auto waits = std::async(std::launch::async, [&] { return mine.acquire(2, options); });
  ASSERT_EQ(queued.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(one.release());
  EXPECT_TRUE(two.release());
  Lease got = waits.get().value();
  EXPECT_EQ(b().count()->capacity, 2U);
  EXPECT_TRUE(got.release());
  EXPECT_TRUE(mine.acquire(2));
}

TEST_P(SemaphoreTest, ACrashedHoldersPermitsComeBack) {
  Lease lost = a().acquire(3, {.ttl = 300ms, .auto_renew = false}).value();
  lost.detach();
  EXPECT_TRUE(b().acquire(3, {.wait = kPatience}));
}

HOLDFAST_ON_EVERY_STORE(SemaphoreTest);

}  // namespace
}  // namespace holdfast::testing
