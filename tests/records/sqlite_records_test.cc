// The records of a SQLite file: other programs, moved files, a busy file, power failures.
#include <sqlite3.h>

#include <chrono>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "src/client/ask.h"
#include "tests/support/disk_log.h"
#include "tests/support/temp_folder.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using base::BootClock;

using ::testing::Contains;

base::BootInstant soon() { return BootClock::now() + 20s; }

class SqliteRecordsTest : public ::testing::Test {
 protected:
  std::unique_ptr<port::Records> open() const {
    auto opened = client::open_records("sqlite://" + path_);
    EXPECT_TRUE(opened) << opened.error();
    return *std::move(opened);
  }
  sqlite3* connect() const {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    return db;
  }

  const support::TempFolder folder_{"records"};
  const std::string path_ = folder_.file("locks.db");
};

TEST_F(SqliteRecordsTest, TheTableIsMadeByTheFirstCreate) {
  const auto records = open();
  ASSERT_FALSE(*records->read("k", soon()));
  ASSERT_FALSE(*records->replace("k", 1, "x", soon()));
  sqlite3* const db = connect();
  const char* const ask = "SELECT 1 FROM records";
  EXPECT_EQ(sqlite3_exec(db, ask, nullptr, nullptr, nullptr), SQLITE_ERROR);
  ASSERT_TRUE(*records->create("k", "1", soon()));
  EXPECT_EQ(sqlite3_exec(db, ask, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
}

TEST_F(SqliteRecordsTest, ABusyFileIsWaitedForUntilTheDeadline) {
  const auto records = open();
  const auto version = records->create("k", "1", soon());
  ASSERT_TRUE(version && *version);
  sqlite3* const db = connect();
  ASSERT_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto began = BootClock::now();
  const auto refused = records->replace("k", **version, "2", began + 200ms);
  EXPECT_GE(BootClock::now() - began, 200ms);
  EXPECT_LT(BootClock::now() - began, 5s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable) << refused.error();
  EXPECT_EQ((*records->read("k", soon()))->text, "1");
  sqlite3_close(db);
  EXPECT_TRUE(*records->replace("k", **version, "2", soon()));
}

TEST_F(SqliteRecordsTest, LocksThatAreForgottenLeaveTheRecords) {
  const auto version = open()->create("k", "1", soon());
  ASSERT_TRUE(version && *version);
  // The file under another inode: its leases are void, and its records are not.
  std::filesystem::copy_file(path_, path_ + ".copy");
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + suffix);
  std::filesystem::rename(path_ + ".copy", path_);
  EXPECT_EQ((*open()->read("k", soon()))->text, "1");
  EXPECT_TRUE(*open()->replace("k", **version, "2", soon()));
}

TEST_F(SqliteRecordsTest, AFileThatIsReplacedIsOpenedAnew) {
  const auto records = open();
  const auto version = records->create("k", "1", soon());
  ASSERT_TRUE(version && *version);
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::filesystem::rename(path_ + suffix, path_ + ".old" + suffix);
  }
  const auto gone = records->read("k", soon());
  ASSERT_TRUE(gone) << gone.error();
  EXPECT_FALSE(*gone);
  EXPECT_TRUE(*records->create("k", "new", soon()));
  EXPECT_EQ((*open()->read("k", soon()))->text, "new");
}

// The log is on the disk when the answer comes, also after commits of locks, which are not synced.
// So is the log's name: SQLite syncs the folder.
TEST_F(SqliteRecordsTest, AnAnsweredChangeIsSynced) {
  support::DiskLog disk;
  const std::string log = std::filesystem::canonical(folder_.path()).string() + "/locks.db-wal";
  const auto ends_synced = [&] {
    const auto lines = disk.lines_of(log);
    return lines.size() >= 2 && lines.front() == "write " + log && lines.back() == "sync " + log;
  };
  const auto records = open();
  auto version = records->create("k", "1", soon());
  ASSERT_TRUE(version && *version);
  EXPECT_TRUE(ends_synced()) << ::testing::PrintToString(disk.lines());
  EXPECT_THAT(disk.lines(), Contains("sync " + std::filesystem::path(log).parent_path().string()));
  const auto client = Client::connect("sqlite://" + path_);
  ASSERT_TRUE(client) << client.error();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client->acquire("lock", Mode::exclusive()));
    disk.clear();
    version = records->replace("k", **version, "2", soon());
    ASSERT_TRUE(version && *version);
    EXPECT_TRUE(ends_synced()) << ::testing::PrintToString(disk.lines());
  }
}

TEST_F(SqliteRecordsTest, AChangeThatCannotBeSyncedIsNotAnswered) {
  const auto records = open();
  const auto version = records->create("k", "1", soon());
  ASSERT_TRUE(version && *version);
  support::DiskLog disk;
  disk.fail_syncs(true);
  const auto changed = records->replace("k", **version, "2", soon());
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), Errc::kOutcomeUnknown) << changed.error();
}

// The log is folded by nobody else here.
TEST_F(SqliteRecordsTest, ManyChangesDoNotGrowTheLogForever) {
  const auto records = open();
  auto version = records->create("k", "", soon());
  const std::string text(port::Records::kLongestText, 'x');
  for (int i = 0; i < 3'000; ++i) {
    ASSERT_TRUE(version && *version);
    version = records->replace("k", **version, text, soon());
  }
  EXPECT_LT(std::filesystem::file_size(path_ + "-wal"), 24U << 20U);
  EXPECT_EQ((*records->read("k", soon()))->version, **version);
}

}  // namespace
}  // namespace holdfast::testing
