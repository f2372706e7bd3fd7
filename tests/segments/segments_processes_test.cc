// Processes that take numbers from one store and are killed or stopped at any moment.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/ids/segments.h"
#include "tests/leased/crowd.h"
#include "tests/records/place.h"

namespace holdfast::ids {
namespace {

namespace files = std::filesystem;
using holdfast::testing::Crowd;
using holdfast::testing::give;
using holdfast::testing::Giver;
using holdfast::testing::Givers;
using holdfast::testing::grow;
using holdfast::testing::make_place;
using holdfast::testing::Place;
using holdfast::testing::stores_under_test;

constexpr const char* kName = "orders";

// The stores that several processes can share.
std::vector<std::string> shared_stores() {
  std::vector<std::string> stores = stores_under_test();
  std::erase(stores, "memory");
  return stores;
}

class SegmentsProcessesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = holdfast::testing::no_place_because(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    place_ = make_place(GetParam());
  }

  std::unique_ptr<Place> place_;
};

TEST_P(SegmentsProcessesTest, ThirtyTwoThatAreKilledOrStoppedLeaveGapsAndRepeatNothing) {
  constexpr std::size_t kProcesses = 32;
  constexpr std::size_t kStopped = 6;
  constexpr std::size_t kSome = 200;  // Several ranges.
  const std::string url = place_->url();
  ASSERT_TRUE(Segments::create(url, kName));
  Crowd crowd("segments", url, kName, std::chrono::milliseconds(0));
  const Givers first = crowd.start_all(kProcesses);
  ASSERT_TRUE(give(first, kSome));
  const Givers stopped(first.begin(), first.begin() + kStopped);
  ASSERT_TRUE(stop_between_writes(stopped, url));
  // Wherever each one is: between a fetch and the use of its range, too.
  Givers second;
  for (std::size_t i = kStopped; i < kProcesses; ++i) {
    first[i]->process().kill9();
    second.push_back(crowd.start());
  }
  ASSERT_TRUE(give(second, kSome));
  for (Giver* giver : stopped) giver->process().resume();
  ASSERT_TRUE(give(stopped, kSome));
  EXPECT_TRUE(crowd.end());
  EXPECT_TRUE(crowd.all_differ());
  std::uint64_t last = 0;
  for (const Givers& givers : {first, second}) {
    for (const Giver* giver : givers) {
      EXPECT_TRUE(grow(giver->ids()));
      last = std::max(last, giver->ids().back());
    }
  }
  const auto status = Segments::status(url, kName);
  ASSERT_TRUE(status) << status.error();
  EXPECT_GT(status->next, last);
  EXPECT_FALSE(status->stopped);
}

TEST_P(SegmentsProcessesTest, AProcessThatEndedInOrderIsFollowedByHigherNumbers) {
  const std::string url = place_->url();
  ASSERT_TRUE(Segments::create(url, kName, {.first = 500}));
  std::uint64_t last = 499;
  for (int i = 0; i < 3; ++i) {
    const auto ids = Segments::open(url, kName, {.step_min = 5});
    ASSERT_TRUE(ids) << ids.error();
    EXPECT_THAT((*ids)->guarantees().forgets, ::testing::HasSubstr(place_->forgets()));
    for (int n = 0; n < 12; ++n) {
      const auto id = (*ids)->next();
      ASSERT_TRUE(id) << id.error();
      ASSERT_GT(id->number(), last);
      last = id->number();
    }
  }
  ASSERT_TRUE(Segments::set_floor(url, kName, 100'000, "a test"));
  EXPECT_EQ((*Segments::open(url, kName))->next()->number(), 100'001U);
}

INSTANTIATE_TEST_SUITE_P(Stores, SegmentsProcessesTest, ::testing::ValuesIn(shared_stores()),
                         [](const auto& store) { return store.param; });

#ifdef HOLDFAST_STORE_SQLITE
// An older copy of the file is put back while a process runs.
TEST(SegmentsSqliteTest, AnOlderFileStopsEveryProcess) {
  const auto place = make_place("sqlite");
  const std::string url = place->url();
  const files::path file = url.substr(std::string("sqlite://").size());
  const files::path folder = file.parent_path();
  const files::path copies = folder.string() + ".copies";
  ASSERT_TRUE(Segments::create(url, kName));
  const SegmentsOptions small{.step_min = 5, .step_max = 5};
  ASSERT_TRUE((*Segments::open(url, kName, small))->next());
  files::copy(folder, copies, files::copy_options::recursive);
  auto ids = Segments::open(url, kName, small);
  ASSERT_TRUE(ids) << ids.error();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE((*ids)->next());

  for (const auto& old : files::directory_iterator(folder)) files::remove_all(old.path());
  for (const auto& copy : files::directory_iterator(copies)) {
    files::rename(copy.path(), folder / copy.path().filename());
  }
  files::remove_all(copies);

  Errc code = Errc::kOutcomeUnknown;
  for (int i = 0; i < 100 && code == Errc::kOutcomeUnknown; ++i) {
    const auto id = (*ids)->next();
    if (!id) code = id.error().code();
  }
  EXPECT_EQ(code, Errc::kCorruptState);
  const auto other = Segments::open(url, kName);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Errc::kCorruptState) << other.error();
  EXPECT_TRUE(Segments::status(url, kName)->stopped);
  ASSERT_TRUE(Segments::set_floor(url, kName, 1'000, "an older file was put back"));
  EXPECT_EQ((*Segments::open(url, kName))->next()->number(), 1'001U);
}
#endif

}  // namespace
}  // namespace holdfast::ids
