// Ids with a time that the lock service gives: each call's record, without a server.
#include "src/ids/segments/served.h"

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/ids/record_text.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr milliseconds kNow{1'790'000'000'000};
const std::string kIncarnation = "00112233445566778899aabbccddeeff";

ServedHead head_of(const std::string& layout, const ClockPolicy& policy = {}) {
  const std::string text = RecordText(std::string(kWorkersKind))
                               .add("incarnation", kIncarnation)
                               .add("layout", layout)
                               .add("policy", policy.to_string())
                               .add("workers", "3")
                               .add("served", "1")
                               .text();
  return *ServedHead::parse("orders", text);
}

class ServedTest : public ::testing::Test {
 protected:
  // All ids of one run, of which none may come twice.
  Result<std::vector<std::uint64_t>> give(const ServedHead& head, std::uint64_t count,
                                          milliseconds wall) {
    auto given = state_.give(head, count, wall);
    for (const std::uint64_t id : given ? *given : std::vector<std::uint64_t>()) {
      EXPECT_TRUE(all_.insert(id).second) << id << " came twice";
      EXPECT_EQ(head.layout.decode(Id::of(id))->worker, 3U);
    }
    // A server that is started anew has what the record says.
    state_ = *ServedState::parse(state_.text(), "it");
    return given;
  }

  ServedState state_{.incarnation = kIncarnation};
  std::set<std::uint64_t> all_;
};

TEST_F(ServedTest, AFullUnitIsFollowedByTheNextOne) {
  const ServedHead head = head_of("time:41 worker:2 sequence:2");
  const auto ids = give(head, 10, kNow);
  ASSERT_TRUE(ids) << ids.error();
  ASSERT_EQ(ids->size(), 10U);
  EXPECT_EQ(head.layout.decode(Id::of(ids->front()))->unix_time, kNow);
  EXPECT_EQ(head.layout.decode(Id::of(ids->back()))->unix_time, kNow + 2ms);
  EXPECT_EQ(*all_.rbegin(), ids->back());
  EXPECT_EQ(give(head, 1'000'000, kNow + 1s)->size(), kMostServedIds);
}

TEST_F(ServedTest, AClockThatIsSetBackRepeatsNothingAndIsFollowedNoFurtherThanThePolicySays) {
  const ServedHead head = head_of("time:41 worker:2 sequence:2");
  for (const milliseconds back : {0ms, 1ms, 5ms, 1'000ms, 59'000ms}) {
    EXPECT_TRUE(give(head, 20, kNow - back)) << back.count();
  }
  EXPECT_EQ(give(head, 1, kNow - 61'000ms).error().code(), Errc::kUnavailable);
  EXPECT_EQ(give(head, 1, kNow - 24h).error().code(), Errc::kUnavailable);
  EXPECT_TRUE(give(head, 1, kNow));
}

TEST_F(ServedTest, APolicyThatRefusesGivesNothingAheadOfTheClock) {
  const ServedHead head = head_of("time:41 worker:2 sequence:2", ClockPolicy::refuse());
  EXPECT_TRUE(give(head, 4, kNow));
  EXPECT_EQ(give(head, 1, kNow).error().code(), Errc::kUnavailable);
  EXPECT_EQ(give(head, 1, kNow - 1ms).error().code(), Errc::kUnavailable);
  EXPECT_TRUE(give(head, 4, kNow + 1ms));
}

TEST_F(ServedTest, TheEndOfTheLifetimeIsAnErrorAndChangesNothing) {
  const ServedHead head = head_of("time:41 worker:2 sequence:2");
  const milliseconds end = head.layout.end();
  EXPECT_TRUE(give(head, 3, end - 1ms));
  EXPECT_EQ(give(head, 2, end - 1ms).error().code(), Errc::kUnsupported);
  EXPECT_TRUE(give(head, 1, end - 1ms));
  EXPECT_EQ(give(head, 1, end - 1ms).error().code(), Errc::kUnsupported);
}

TEST_F(ServedTest, WhatIsDamagedOrOfClientsOnlyIsRefused) {
  std::string text = state_.text();
  text[text.size() / 2] ^= 1;
  EXPECT_EQ(ServedState::parse(text, "it").error().code(), Errc::kCorruptState);
  const std::string clients = RecordText(std::string(kWorkersKind)).add("workers", "3").text();
  EXPECT_EQ(ServedHead::parse("orders", clients).error().code(), Errc::kUnsupported);
  const std::string full = RecordText(std::string(kWorkersKind))
                               .add("incarnation", kIncarnation)
                               .add("layout", "time:41 worker:2 sequence:2")
                               .add("policy", "logical")
                               .add("workers", "4")
                               .add("served", "1")
                               .text();
  EXPECT_EQ(ServedHead::parse("orders", full).error().code(), Errc::kCorruptState);
}

}  // namespace
}  // namespace holdfast::ids
