// A power failure leaves a file of host workers right: each step is on the disk before the next.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/ids/host_workers.h"
#include "src/ids/fake_clock.h"
#include "src/ids/worker_row.h"
#include "tests/support/disk_log.h"
#include "tests/support/temp_folder.h"

namespace holdfast::ids {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class HostWorkersDiskTest : public testing::Test {
 protected:
  HostWorkersSpec spec(ClockPolicy policy = {}) const {
    return {.layout = *Layout::parse("leaf"), .policy = policy};
  }
  std::vector<std::string> write_and_sync() const { return {"write " + path_, "sync " + path_}; }
  // Changes row 0 as another program could: its checksum is right.
  template <typename Change>
  void change_head(Change change) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    std::string bytes(kRowBytes, '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bool later = false;
    auto head = parse_file_row(bytes, &later);
    ASSERT_TRUE(head);
    change(*head);
    file.seekp(0);
    file << head->text();
  }

  const support::TempFolder temp_;
  // As the kernel names it.
  const std::string folder_ = std::filesystem::canonical(temp_.path()).string();
  const std::string path_ = folder_ + "/orders.ids";
};

TEST_F(HostWorkersDiskTest, AFileIsWholeOnTheDiskBeforeItHasItsName) {
  const support::DiskLog disk;
  ASSERT_TRUE(HostWorkers::create(path_, spec()));
  const std::string fresh = path_ + R"(\.[0-9a-f]+\.new)";
  EXPECT_THAT(disk.lines(),
              ElementsAre(MatchesRegex("write " + fresh), MatchesRegex("sync " + fresh),
                          "link " + path_, "sync " + folder_));
}

TEST_F(HostWorkersDiskTest, AFileThatCannotBeSyncedHasNoName) {
  support::DiskLog disk;
  disk.fail_syncs(true);
  EXPECT_EQ(HostWorkers::create(path_, spec()).error().code(), Errc::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(HostWorkersDiskTest, ABoundIsOnTheDiskBeforeItsFirstId) {
  ASSERT_TRUE(HostWorkers::create(path_, spec()));
  FakeClock clock(kNow);
  support::DiskLog disk;
  const auto ids = HostWorkers::open(path_)->take(&clock);
  ASSERT_TRUE(ids) << ids.error();
  EXPECT_EQ(disk.lines(), write_and_sync()) << "the first bound";
  disk.clear();
  ASSERT_TRUE((*ids)->next());
  EXPECT_THAT(disk.lines(), IsEmpty()) << "the bound is far ahead";
  clock.pass(seconds(21));
  ASSERT_TRUE((*ids)->next());
  EXPECT_EQ(disk.lines(), write_and_sync()) << "a bound that was reached";
}

TEST_F(HostWorkersDiskTest, ARoundIsOnTheDiskBeforeItsFirstId) {
  ASSERT_TRUE(HostWorkers::create(path_, spec(ClockPolicy::step_sequence(1'024))));
  FakeClock clock(kNow);
  const auto ids = *HostWorkers::open(path_)->take(&clock);
  ASSERT_TRUE(ids->next());
  clock.step(-seconds(1));
  const support::DiskLog disk;
  const auto id = ids->next();
  ASSERT_TRUE(id) << id.error();
  EXPECT_EQ(ids->layout().decode(*id)->sequence, 1'024u);
  EXPECT_EQ(disk.lines(), write_and_sync());
}

TEST_F(HostWorkersDiskTest, NothingIsGivenAboveABoundThatCannotBeSynced) {
  ASSERT_TRUE(HostWorkers::create(path_, spec()));
  const HostWorkers workers = *HostWorkers::open(path_);
  FakeClock clock(kNow);
  support::DiskLog disk;
  disk.fail_syncs(true);
  EXPECT_EQ(workers.take(&clock).error().code(), Errc::kUnavailable);
  disk.fail_syncs(false);
  const auto ids = *workers.take(&clock);
  ASSERT_TRUE(ids->next());
  clock.pass(seconds(21));
  disk.fail_syncs(true);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ids->next().error().code(), Errc::kUnavailable);
  disk.fail_syncs(false);
  disk.clear();
  EXPECT_TRUE(ids->next());
  EXPECT_EQ(disk.lines(), write_and_sync()) << "it is written again: a failed sync drops pages";
}

TEST_F(HostWorkersDiskTest, AFileOfAnotherHostIsRefused) {
  ASSERT_TRUE(HostWorkers::create(path_, spec()));
  change_head([](FileRow& head) { head.host += "0"; });
  const auto moved = HostWorkers::open(path_);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code(), Errc::kCorruptState);
  EXPECT_THAT(moved.error().message(), HasSubstr("another host"));
}

TEST_F(HostWorkersDiskTest, AFileOfAnotherInodeIsRefused) {
  ASSERT_TRUE(HostWorkers::create(path_, spec()));
  change_head([](FileRow& head) { ++head.inode; });
  const auto copy = HostWorkers::open(path_);
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code(), Errc::kCorruptState);
}

// A copy on another file system may have the number of the first one's inode.
TEST_F(HostWorkersDiskTest, AFileThatWasMadeAtAnotherTimeIsRefused) {
  ASSERT_TRUE(HostWorkers::create(path_, spec()));
  bool told = false;
  change_head([&](FileRow& head) { told = head.born_ns++ != 0; });
  if (!told) GTEST_SKIP() << "the file system does not tell when a file was made";
  EXPECT_EQ(HostWorkers::open(path_).error().code(), Errc::kCorruptState);
}

// As a file of an earlier version has it.
TEST_F(HostWorkersDiskTest, AFileThatDoesNotTellWhenItWasMadeIsOpened) {
  ASSERT_TRUE(HostWorkers::create(path_, spec()));
  change_head([](FileRow& head) { head.born_ns = 0; });
  EXPECT_TRUE(HostWorkers::open(path_));
}

}  // namespace
}  // namespace holdfast::ids
