#include "holdfast/ids/uuid.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <unordered_set>

#include <gtest/gtest.h>

#include "src/ids/fake_clock.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;

TEST(UuidV7Test, HasItsTimeVersionAndVariant) {
  FakeClock clock(kNow);
  UuidV7 uuids(&clock);
  const Id id = *uuids.next();
  const std::string text = id.to_string();
  EXPECT_EQ(text.size(), 36u);
  EXPECT_EQ(text[14], '7');
  EXPECT_NE(std::string("89ab").find(text[19]), std::string::npos) << text;
  EXPECT_EQ(time_of(id), kNow);
  EXPECT_EQ(Id::parse(text), id);
}

// RFC 9562, appendix A.6.
TEST(UuidV7Test, TheExampleOfTheStandardIsRead) {
  const auto id = Id::parse("017F22E2-79B0-7CC3-98C4-DC0C0C07398F");
  ASSERT_TRUE(id);
  EXPECT_EQ(time_of(*id), milliseconds(1'645'557'742'000));
}

template <typename Source>
class GrowingIds : public testing::Test {};
using Sources = testing::Types<UuidV7, Ulid>;
TYPED_TEST_SUITE(GrowingIds, Sources);

TYPED_TEST(GrowingIds, GrowWhileTheClockStandsAndIsSetBack) {
  FakeClock clock(kNow);
  TypeParam ids(&clock);
  Id last = *ids.next();
  for (int i = 0; i < 1'000; ++i) {
    if (i % 100 == 0) clock.step(-milliseconds(7));
    if (i % 30 == 0) clock.pass(milliseconds(1));
    const Id id = *ids.next();
    ASSERT_LT(last, id);
    ASSERT_LT(last.to_string(), id.to_string());
    last = id;
  }
}

// A counter that begins at its end pushes the time once, not with every id that follows.
TYPED_TEST(GrowingIds, OneOverflowPushesTheTimeOnce) {
  FakeClock clock(kNow);
  int drawn = 0;
  TypeParam ids(&clock,
                [&drawn]() -> std::uint64_t { return drawn++ < 2 ? ~std::uint64_t{0} : 5; });
  EXPECT_EQ(time_of(*ids.next()), kNow);
  Id last{};
  milliseconds pushed = kNow;
  for (int i = 0; i < 100; ++i) {
    const Id id = *ids.next();
    if (i > 0) {
      ASSERT_LT(last, id);
    }
    last = id;
    pushed = *time_of(id);
  }
  EXPECT_LE(pushed, kNow + milliseconds(1));
  clock.pass(milliseconds(5));
  EXPECT_EQ(time_of(*ids.next()), kNow + milliseconds(5)) << "the clock has caught up";
}

TYPED_TEST(GrowingIds, AChildDrawsAnew) {
  FakeClock clock(kNow);
  TypeParam ids(&clock);
  ASSERT_TRUE(ids.next());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Id id = *ids.next();
    ::_exit(::write(ends[1], &id, sizeof id) == sizeof id ? 0 : 1);
  }
  Id theirs{};
  ASSERT_EQ(::read(ends[0], &theirs, sizeof theirs), static_cast<ssize_t>(sizeof theirs));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_NE(theirs, *ids.next());
  EXPECT_NE(theirs.high << 20 | theirs.low >> 44, 0u);
}

// At the fork another thread has the mutex, more often than not.
TYPED_TEST(GrowingIds, AChildOfABusyParentDrawsAnew) {
  TypeParam ids;
  std::atomic<bool> enough{false};
  std::thread busy([&] {
    while (!enough) EXPECT_TRUE(ids.next());
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      ::_exit(ids.next() && ids.next() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "it hung, or got no id";
  }
  enough = true;
  busy.join();
}

TEST(UlidTest, TheTextIsCrockfordsBase32) {
  // The specification's example has this time.
  const auto id = Id::parse("01ARYZ6S41TSV4RRFFQ69G5FAV");
  ASSERT_TRUE(id);
  EXPECT_EQ(time_of(*id), milliseconds(1'469'918'176'385));
  EXPECT_EQ(id->to_string(), "01ARYZ6S41TSV4RRFFQ69G5FAV");
  EXPECT_EQ(Id::parse("01aryz6s41tsv4rrffq69g5fav"), id);
  EXPECT_TRUE(Id::parse("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"));
}

TEST(IdTest, WhatIsNoIdIsNotRead) {
  for (const char* text :
       {"", "-1", "9223372036854775808", "12x", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "01ARYZ6S41TSV4RRFFQ69G5FAU", "017F22E2-79B0-7CC3-98C4-DC0C0C07398",
        "017F22E2+79B0-7CC3-98C4-DC0C0C07398F", "017F22E2-79B0-7CC3-98C4-DC0C0C07398G"}) {
    EXPECT_EQ(Id::parse(text), std::nullopt) << text;
  }
  EXPECT_EQ(Id::parse("9223372036854775807")->number(), (std::uint64_t{1} << 63) - 1);
}

}  // namespace
}  // namespace holdfast::ids
