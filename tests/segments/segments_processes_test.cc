// Processes that take numbers from one store and are killed at any moment.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/ids/segments.h"
#include "tests/records/place.h"

namespace holdfast::ids {
namespace {

namespace files = std::filesystem;
using holdfast::testing::make_place;
using holdfast::testing::Place;
using holdfast::testing::stores_under_test;

constexpr const char* kName = "orders";

// One line of a process: whose number it is. 0: it could not open the segments or got none.
struct Given {
  std::uint64_t process = 0;
  std::uint64_t number = 0;
};

[[noreturn]] void give_numbers(const std::string& url, std::uint64_t process, int to) {
  auto ids = Segments::open(url, kName, {.step_min = 20, .step_max = 40});
  for (;;) {
    Given given{process, 0};
    if (ids) {
      if (const auto id = (*ids)->next()) given.number = id->number();
    }
    if (::write(to, &given, sizeof given) != sizeof given || given.number == 0) ::_exit(1);
  }
}

// Those that several processes can share.
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

TEST_P(SegmentsProcessesTest, KilledProcessesLeaveGapsAndRepeatNothing) {
  constexpr std::size_t kProcesses = 8;
  constexpr std::size_t kNumbers = 20'000;
  const std::string url = place_->url();
  ASSERT_TRUE(Segments::create(url, kName));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::vector<pid_t> children;
  const auto begin = [&] {
    const std::uint64_t process = children.size();
    const pid_t child = ::fork();
    if (child == 0) give_numbers(url, process, ends[1]);
    children.push_back(child);
  };
  for (std::size_t i = 0; i < kProcesses; ++i) begin();

  std::unordered_set<std::uint64_t> seen;
  std::vector<std::uint64_t> last(1'000);
  std::size_t ended = 0;
  Given given;
  for (std::size_t count = 0; count < kNumbers; ++count) {
    ASSERT_EQ(::read(ends[0], &given, sizeof given), static_cast<ssize_t>(sizeof given));
    ASSERT_NE(given.number, 0U) << "process " << given.process << " got no number";
    ASSERT_TRUE(seen.insert(given.number).second) << given.number << " came twice";
    ASSERT_GT(given.number, last[given.process]) << "process " << given.process;
    last[given.process] = given.number;
    // The oldest one, wherever it is: between a fetch and the use of its range, too.
    if (count % 400 == 399) {
      ::kill(children[ended], SIGKILL);
      ::waitpid(children[ended++], nullptr, 0);
      begin();
    }
  }
  for (; ended < children.size(); ++ended) {
    ::kill(children[ended], SIGKILL);
    ::waitpid(children[ended], nullptr, 0);
  }
  ::close(ends[0]);
  ::close(ends[1]);
  const auto status = Segments::status(url, kName);
  ASSERT_TRUE(status) << status.error();
  EXPECT_GT(status->next, kNumbers);
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
