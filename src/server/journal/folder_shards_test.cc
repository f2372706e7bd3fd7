// A folder with several shards: how it begins, what is refused later, and the tools for it.
#include "src/server/journal/folder_shards.h"

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/server_tools.h"
#include "src/server/journal/sqlite_journal.h"
#include "src/server/service.h"
#include "tests/support/temp_folder.h"

namespace holdfast::server {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kFolderShards = 3;

class FolderShardsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Journal> make(std::uint32_t shard, std::uint32_t of = kFolderShards) const {
    return *make_journal("sqlite:" + data_, {shard, of});
  }
  // Servers come and go; each shard's newest batch gets one more.
  void serve(std::uint32_t of = kFolderShards) const {
    std::vector<std::unique_ptr<Journal>> all;
    for (std::uint32_t shard = 0; shard < of; ++shard) {
      all.push_back(make(shard, of));
      const auto opened = all.back()->open();
      ASSERT_TRUE(opened) << opened.error().message();
      EXPECT_EQ(all.back()->opening().restored, "");
    }
  }
  std::string refusal(std::uint32_t wanted = 0) const {
    const auto fixed = fix_shards("sqlite:" + data_, wanted);
    return fixed ? "none: " + std::to_string(*fixed) : fixed.error().message();
  }
  std::string database(std::uint32_t shard) const {
    return shard_folder(data_, shard) + "/journal.db";
  }
  void expect_refused(const std::string& what, std::uint32_t wanted = 0) const {
    const auto fixed = fix_shards("sqlite:" + data_, wanted);
    ASSERT_FALSE(fixed) << "wanted " << wanted;
    EXPECT_NE(fixed.error().message().find(what), std::string::npos) << fixed.error().message();
  }

  const support::TempFolder folder_;
  const std::string data_ = folder_.file("data");
};

TEST_F(FolderShardsTest, ANewFolderGetsOneShardOrAsManyAsWished) {
  EXPECT_EQ(fix_shards("sqlite:" + data_, 0).value(), 1U);
  EXPECT_EQ(fix_shards("sqlite:" + data_, kFolderShards).value(), kFolderShards);
  EXPECT_FALSE(fs::exists(data_)) << "only the journal itself makes it";
  expect_refused("at most 64", 65);
}

TEST_F(FolderShardsTest, TheNumberIsKept) {
  serve();
  serve();
  EXPECT_EQ(fix_shards("sqlite:" + data_, 0).value(), kFolderShards);
  EXPECT_EQ(fix_shards("sqlite:" + data_, kFolderShards).value(), kFolderShards);
  expect_refused("has 3 shard(s), not 1", 1);
  expect_refused("has 3 shard(s), not 4", 4);
}

TEST_F(FolderShardsTest, AFolderOfBeforeHasOneShardAndStaysAsItIs) {
  serve(1);
  EXPECT_EQ(fix_shards("sqlite:" + data_, 0).value(), 1U);
  expect_refused("has 1 shard(s), not 3", kFolderShards);
  EXPECT_FALSE(fs::exists(shard_folder(data_, 1)));
  SqliteJournal look({.folder = data_, .look_only = true});
  ASSERT_TRUE(look.open());
  EXPECT_EQ(look.shard().of, 1U);
}

// A server of before reads this row, and knows format 1 only.
TEST_F(FolderShardsTest, AServerOfBeforeRefusesEachShard) {
  serve();
  for (std::uint32_t shard = 0; shard < kFolderShards; ++shard) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(database(shard).c_str(), &db), SQLITE_OK);
    sqlite3_stmt* read = nullptr;
    const char* const query =
        "SELECT format, id, room, head_batch, head_count, head_checksum, term FROM meta";
    ASSERT_EQ(sqlite3_prepare_v2(db, query, -1, &read, nullptr), SQLITE_OK);
    ASSERT_EQ(sqlite3_step(read), SQLITE_ROW);
    EXPECT_EQ(sqlite3_column_int(read, 0), 2);
    sqlite3_finalize(read);
    sqlite3_close(db);
  }
}

TEST_F(FolderShardsTest, NoShardIsServedUnderAnotherNumber) {
  serve();
  const auto alone = make(0, 1)->open();
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().message(),
            "journal " + database(0) + ": is shard 0 of 3, and not shard 0 of 1");
  const auto part = fix_shards("sqlite:" + shard_folder(data_, 2), 0);
  ASSERT_FALSE(part);
  EXPECT_NE(part.error().message().find("name the folder that it is in"), std::string::npos);
}

// The thread sanitizer does not know that a forked child makes the gate of SQLite anew.
#ifndef HOLDFAST_SANITIZED_THREADS
// A killed server has its last commits in the log, which the next start expects to find.
TEST_F(FolderShardsTest, AStartThatIsRefusedLeavesTheLogOfAKilledServer) {
  serve();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto journal = make(0);
    const bool done =
        journal->open() && journal->commit(*journal->last() + 1, "bytes") == Commit::kCommitted;
    ::_exit(done ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_FALSE(make(0, 1)->open()) << "it has three shards";
  const auto journal = make(0);
  ASSERT_TRUE(journal->open());
  EXPECT_EQ(journal->opening().restored, "");
}
#endif

TEST_F(FolderShardsTest, AShardThatIsMissingOrEmptyIsNamed) {
  serve();
  fs::resize_file(database(2), 0);
  expect_refused(database(2) + ": is missing, or empty without its log, but " + data_ +
                 "/journal.db says that");
  fs::remove_all(shard_folder(data_, 2));
  expect_refused(database(2) + ": is missing, or empty without its log, but " + data_ +
                 "/journal.db says that");
  const auto opened = make(2)->open();
  ASSERT_FALSE(opened) << "also without that look";
  EXPECT_EQ(opened.error().code(), Errc::kCorruptState);
  EXPECT_FALSE(fs::exists(database(2))) << "nothing begins anew";
}

TEST_F(FolderShardsTest, ADamagedShardIsNamed) {
  serve();
  fs::resize_file(database(1), 0);
  fs::copy_file("/proc/self/exe", database(1), fs::copy_options::overwrite_existing);
  expect_refused(database(1));
}

TEST_F(FolderShardsTest, AShardOfAnotherPlaceIsRefused) {
  serve();
  fs::rename(database(1), folder_.file("one"));
  fs::rename(database(2), database(1));
  fs::rename(folder_.file("one"), database(2));
  expect_refused("is not shard 1 of the 3");
  fs::rename(data_, folder_.file("old"));
  serve();
  fs::remove_all(shard_folder(data_, 1));
  fs::copy(shard_folder(folder_.file("old"), 2), shard_folder(data_, 1));
  expect_refused("is not shard 1 of the 3");
}

TEST_F(FolderShardsTest, AFolderThatLostItsFirstShardNeverBeginsAnew) {
  serve();
  fs::remove(database(0));
  fs::remove(data_ + "/journal.id");
  for (const std::uint32_t wanted : {0U, 1U, kFolderShards}) {
    expect_refused(
        database(0) + ": is missing, or empty without its log, but " + shard_folder(data_, 1),
        wanted);
  }
  EXPECT_FALSE(make(0)->open()) << "also without that look";
  EXPECT_FALSE(fs::exists(database(0)));
}

TEST_F(FolderShardsTest, ABeginningThatWasCutOffBeginsAgain) {
  ASSERT_TRUE(make(0)->open());  // The others have had no term yet.
  fs::remove(database(0));
  fs::remove(data_ + "/journal.id");
  fs::remove_all(shard_folder(data_, 2));
  EXPECT_EQ(fix_shards("sqlite:" + data_, kFolderShards).value(), kFolderShards);
  serve();
  EXPECT_EQ(count_shards(data_).value(), kFolderShards);
}

TEST_F(FolderShardsTest, ACopyOfOneShardThatIsPutBackWaitsAlone) {
  serve();
  fs::copy_file(database(1), folder_.file("copy"));
  serve();
  fs::copy_file(folder_.file("copy"), database(1), fs::copy_options::overwrite_existing);
  for (std::uint32_t shard = 0; shard < kFolderShards; ++shard) {
    const auto journal = make(shard);
    ASSERT_TRUE(journal->open());
    EXPECT_EQ(journal->opening().restored.empty(), shard != 1) << journal->opening().restored;
  }
}

TEST_F(FolderShardsTest, AnOlderCopyThatIsWrittenOverTheFilesWaits) {
  serve(1);
  fs::copy(data_, folder_.file("copy"), fs::copy_options::recursive);
  serve(1);
  for (const char* name : {"/journal.db", "/journal.id"}) {
    fs::copy_file(folder_.file("copy") + name, data_ + name, fs::copy_options::overwrite_existing);
  }
  const auto journal = make(0, 1);
  ASSERT_TRUE(journal->open());
  EXPECT_EQ(journal->opening().restored, "journal.id was overwritten by a copy");
}

TEST_F(FolderShardsTest, OneServerAtATimeHasTheFolder) {
  const auto first = make(0);
  ASSERT_TRUE(first->open());
  const auto second = make(0)->open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::kStoreInUse);
}

// The disk is one, and its warning comes once.
TEST_F(FolderShardsTest, TheFirstShardTellsOfTheDiskAndAllOfTheirFiles) {
  serve();
  Service::State sum;
  std::uint64_t files = 0;
  for (std::uint32_t shard = 0; shard < kFolderShards; ++shard) {
    const auto journal = make(shard);
    ASSERT_TRUE(journal->open());
    Service::State one;
    one.disk = journal->space();
    EXPECT_EQ(one.disk.size > 0, shard == 0);
    EXPECT_GT(one.disk.journal, 0U);
    files += one.disk.journal;
    sum.add(one, shard);
  }
  EXPECT_EQ(sum.disk.journal, files);
  EXPECT_GT(sum.disk.size, 0U);
}

// --- The tools.

TEST_F(FolderShardsTest, ABackupHasEveryShardAndComesBack) {
  serve();
  const auto inside = back_up_journal(data_, data_ + "/shard-9");
  ASSERT_FALSE(inside);
  EXPECT_NE(inside.error().message().find("name another place"), std::string::npos);
  const auto seen = verify_journal(data_);
  ASSERT_TRUE(seen) << seen.error().message();
  EXPECT_EQ(seen->shards, kFolderShards);
  const std::string backup = folder_.file("backup");
  const auto made = back_up_journal(data_, backup);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->shards, kFolderShards);
  EXPECT_EQ(made->id, seen->id);
  EXPECT_FALSE(back_up_journal(data_, backup)) << "it is there already";
  EXPECT_FALSE(restore_journal(backup, data_)) << "it has a journal";

  const std::string other = folder_.file("other");
  fs::create_directories(shard_folder(other, 2));
  fs::copy_file(database(2), shard_folder(other, 2) + "/journal.db");
  EXPECT_FALSE(restore_journal(backup, other)) << "a shard is there";
  fs::remove_all(other);
  const auto restored = restore_journal(backup, other);
  ASSERT_TRUE(restored) << restored.error().message();
  EXPECT_EQ(restored->id, seen->id);
  for (std::uint32_t shard = 0; shard < kFolderShards; ++shard) {
    const auto journal = *make_journal("sqlite:" + other, {shard, kFolderShards});
    ASSERT_TRUE(journal->open());
    EXPECT_NE(journal->opening().restored, "") << "each shard waits";
  }
}

TEST_F(FolderShardsTest, OnlyAWholeBackupIsRestored) {
  serve();
  const std::string backup = folder_.file("backup");
  const std::string other = folder_.file("other");
  EXPECT_FALSE(restore_journal(data_, other)) << "that is no backup";
  ASSERT_TRUE(back_up_journal(data_, backup));
  EXPECT_FALSE(verify_journal(backup + "/journal.db")) << "one of three";
  EXPECT_FALSE(restore_journal(backup + "/journal.db", other)) << "one of three";
  fs::remove_all(shard_folder(backup, 1));
  const auto half = restore_journal(backup, other);
  ASSERT_FALSE(half);
  EXPECT_NE(half.error().message().find("shard-1"), std::string::npos) << half.error().message();
  EXPECT_FALSE(fs::exists(other));
}

TEST_F(FolderShardsTest, ABackupThatFailsLeavesNothing) {
  serve();
  // Nobody reads the batches before the copy of the pages is verified.
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(database(1).c_str(), &db), SQLITE_OK);
  ASSERT_EQ(
      sqlite3_exec(db, "UPDATE meta SET head_batch = 7, head_count = 1", nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(db);
  const auto made = back_up_journal(data_, folder_.file("backup"));
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("shard-1"), std::string::npos) << made.error().message();
  EXPECT_FALSE(fs::exists(folder_.file("backup")));
  EXPECT_FALSE(fs::exists(folder_.file("backup.part")));
  EXPECT_FALSE(verify_journal(data_));
}

}  // namespace
}  // namespace holdfast::server
