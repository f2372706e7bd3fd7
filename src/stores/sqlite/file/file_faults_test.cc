// Changes of the file while a store uses it, and files that are not what they seem.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "src/stores/sqlite/file/lock_file.h"
#include "src/stores/sqlite/store_test_support.h"

namespace holdfast::stores::sqlite::testing {
namespace {

namespace fs = std::filesystem;

void copy(const std::string& from, const std::string& to) {
  for (const char* suffix : {"", "-wal"}) {
    std::error_code ignored;
    fs::copy_file(from + suffix, to + suffix, fs::copy_options::overwrite_existing, ignored);
  }
}

SqliteTuning impatient() {
  SqliteTuning tuning;
  tuning.patience = 50ms;
  return tuning;
}

Errc code_of(const Result<std::unique_ptr<TestClient>>& opened) {
  return opened ? Errc{} : opened.error().code();
}

void execute(const std::string& path, const char* text) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, text, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  sqlite3_close(db);
}

TEST(FileFaultsTest, WhatWasHeldInADeletedFileIsLost) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto request = request_for("a");
  const auto held = client->acquire(request);
  ASSERT_TRUE(held);
  fs::remove(folder / "locks.db");
  const auto renewed = client->renew("a", request.id, 1, 30s, held->token);
  ASSERT_FALSE(renewed);
  EXPECT_EQ(renewed.error().code(), Errc::kLost);
  // Its owner may still be at work until it gives up, or until its deadline.
  EXPECT_EQ(client->acquire(request_for("a")).error().code(), Errc::kUnavailable);
  ASSERT_TRUE(client->release("a", request.id));
  // Then the same store goes on with a new file, above the old tokens.
  const auto again = client->acquire(request_for("a"));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->status, AcquisitionStatus::kHeld);
  EXPECT_GT(again->token.counter, held->token.counter);
  EXPECT_TRUE(fs::exists(folder / "locks.db"));
}

TEST(FileFaultsTest, ADeletedFileIsKeptUntilTheLastDeadlineInIt) {
  const TempFolder folder;
  auto holder = open_client(folder / "locks.db");
  auto request = request_for("a");
  request.ttl = 400ms;
  const auto asked = base::BootClock::now();
  ASSERT_TRUE(holder->acquire(request));
  fs::remove(folder / "locks.db");
  auto other = TestClient::open(folder / "locks.db", impatient());
  while (!other && base::BootClock::now() < asked + 10s) {
    EXPECT_EQ(code_of(other), Errc::kStoreInUse);
    // Makes the holder's store look; otherwise it hears nothing for some seconds.
    static_cast<void>(holder->acquire(request_for("b")));
    other = TestClient::open(folder / "locks.db", impatient());
  }
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_GE(base::BootClock::now(), asked + 400ms);
}

TEST(FileFaultsTest, AWaiterInADeletedFileMayQueueAgain) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto waiter = request_for("a");
  ASSERT_TRUE(client->acquire(request_for("a")));
  ASSERT_EQ(client->acquire(waiter)->status, AcquisitionStatus::kWaiting);
  fs::remove(folder / "locks.db");
  EXPECT_EQ(client->renew("a", waiter.id, 1)->status, AcquisitionStatus::kGone);
}

TEST(FileFaultsTest, AFolderThatWasRemovedIsNotMadeAgainByAnIdleStore) {
  const TempFolder folder;
  auto client = open_client(folder / "x/locks.db");
  const auto request = request_for("a");
  const auto held = client->acquire(request);
  ASSERT_TRUE(held);
  fs::remove_all(folder / "x");
  // Makes the store's thread look at its file; the renewal after it comes when it has.
  EXPECT_EQ(client->renew("a", request.id, 1, 30s, held->token).error().code(), Errc::kLost);
  EXPECT_EQ(client->renew("a", request.id, 2, 30s, held->token).error().code(), Errc::kLost);
  EXPECT_FALSE(fs::exists(folder / "x"));
  ASSERT_TRUE(client->release("a", request.id));
  EXPECT_EQ(client->acquire(request_for("a"))->status, AcquisitionStatus::kHeld);
}

TEST(FileFaultsTest, AGrantIsNotReportedFromAMovedFile) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto first = request_for("a");
  const auto held = client->acquire(first);
  ASSERT_TRUE(client->release("a", first.id));
  fs::rename(folder / "locks.db", folder / "elsewhere.db");
  const auto second = client->acquire(request_for("a"));
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_TRUE(fs::exists(folder / "locks.db")) << "granted in a new file, not in the moved one";
  EXPECT_GT(second->token.counter, held->token.counter);
}

TEST(FileFaultsTest, ANewFileIsRefusedWhileSomebodyHasTheDeletedOneOpen) {
  const TempFolder folder;
  auto holder = open_client(folder / "locks.db");
  const auto request = request_for("a");
  const auto held = holder->acquire(request);
  ASSERT_TRUE(held);
  fs::remove(folder / "locks.db");
  EXPECT_EQ(code_of(TestClient::open(folder / "locks.db", impatient())), Errc::kStoreInUse);
  // Once the holder has learned of its loss and given up, others get in.
  EXPECT_EQ(holder->renew("a", request.id, 1, 30s, held->token).error().code(), Errc::kLost);
  EXPECT_EQ(code_of(TestClient::open(folder / "locks.db", impatient())), Errc::kStoreInUse);
  ASSERT_TRUE(holder->release("a", request.id));
  auto other = open_client(folder / "locks.db");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->acquire(request_for("a"))->status, AcquisitionStatus::kHeld);
}

TEST(FileFaultsTest, ACopyElsewhereStartsANewFloorWithoutOldLeases) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto held = client->acquire(request_for("a"));
  ASSERT_TRUE(held);
  copy(folder / "locks.db", folder / "copy.db");
  auto other = open_client(folder / "copy.db");
  ASSERT_TRUE(other);
  const auto there = other->acquire(request_for("a"));
  ASSERT_TRUE(there);
  EXPECT_EQ(there->status, AcquisitionStatus::kHeld);
  EXPECT_GT(there->token.counter, held->token.counter + 1000);
}

TEST(FileFaultsTest, AnOldCopyPutBackByRenameGoesOnAboveItsTokens) {
  const TempFolder folder;
  std::uint64_t last = 0;
  {
    auto client = open_client(folder / "locks.db");
    client->store->close(soon());
  }
  copy(folder / "locks.db", folder / "old.db");
  SqliteTuning tuning;
  tuning.token_block = 600;
  {
    auto client = open_client(folder / "locks.db", tuning);
    last = client->acquire(request_for("a"))->token.counter;
  }
  fs::rename(folder / "old.db", folder / "locks.db");
  auto client = open_client(folder / "locks.db", tuning);
  ASSERT_TRUE(client);
  const auto held = client->acquire(request_for("a"));
  ASSERT_TRUE(held);
  EXPECT_GT(held->token.counter, last);
}

TEST(FileFaultsTest, AnOldCopyWrittenOverTheFileIsFoundOutByItsCeiling) {
  const TempFolder folder;
  SqliteTuning tuning;
  tuning.token_block = 600;
  open_client(folder / "locks.db", tuning);
  copy(folder / "locks.db", folder / "old.db");
  std::uint64_t last = 0;
  {
    auto client = open_client(folder / "locks.db", tuning);
    for (int i = 0; i < 1500; ++i) {
      const auto request = request_for("a");
      last = client->acquire(request)->token.counter;
      ASSERT_TRUE(client->release("a", request.id));
    }
  }
  std::ifstream from(folder / "old.db", std::ios::binary);
  std::fstream to(folder / "locks.db", std::ios::binary | std::ios::in | std::ios::out);
  to << from.rdbuf();
  to.close();
  fs::remove(folder / "locks.db-wal");
  auto client = open_client(folder / "locks.db", tuning);
  ASSERT_TRUE(client);
  EXPECT_GT(client->acquire(request_for("a"))->token.counter, last);
}

// Everything that was held in a log that somebody removed is lost, and nobody else gets in before
// those who held it know.
void expect_holder_first(const TempFolder& folder, const std::vector<std::string>& removed) {
  auto holder = open_client(folder / "locks.db");
  const auto request = request_for("a");
  const auto held = holder->acquire(request);
  ASSERT_TRUE(held);
  for (const std::string& name : removed) fs::remove(folder / name);
  const auto early = TestClient::open(folder / "locks.db", impatient());
  ASSERT_FALSE(early) << "a second holder beside the first";
  EXPECT_EQ(early.error().code(), Errc::kStoreInUse) << early.error().message();
  EXPECT_NE(early.error().message().find("was removed or replaced"), std::string::npos);
  EXPECT_EQ(holder->renew("a", request.id, 1, 30s, held->token).error().code(), Errc::kLost);
  // Its owner may not have heard of it yet.
  EXPECT_EQ(code_of(TestClient::open(folder / "locks.db", impatient())), Errc::kStoreInUse);
  ASSERT_TRUE(holder->release("a", request.id));
  auto other = open_client(folder / "locks.db");
  ASSERT_TRUE(other);
  const auto next = other->acquire(request_for("a"));
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->status, AcquisitionStatus::kHeld);
  EXPECT_GT(next->token.counter, held->token.counter);
  EXPECT_EQ(holder->acquire(request_for("a"))->status, AcquisitionStatus::kWaiting)
      << "of one file again";
}

TEST(FileFaultsTest, NobodyGetsInBesideTheHoldersOfARemovedLog) {
  expect_holder_first(TempFolder(), {"locks.db-wal", "locks.db-shm"});
}

TEST(FileFaultsTest, NobodyGetsInBesideTheHoldersOfARemovedShm) {
  expect_holder_first(TempFolder(), {"locks.db-shm"});
}

TEST(FileFaultsTest, NobodyGetsInBesideTheHoldersOfARemovedWal) {
  expect_holder_first(TempFolder(), {"locks.db-wal"});
}

TEST(FileFaultsTest, ALogThatSomebodyElsePutThereIsNotTakenForTheOneInUse) {
  const TempFolder folder;
  auto holder = open_client(folder / "locks.db");
  const auto held = holder->acquire(request_for("a"));
  ASSERT_TRUE(held);
  for (const char* suffix : {"-wal", "-shm"}) {
    fs::rename(folder / ("locks.db" + std::string(suffix)), folder / "away");
    fs::copy_file(folder / "away", folder / ("locks.db" + std::string(suffix)));
  }
  EXPECT_EQ(code_of(TestClient::open(folder / "locks.db", impatient())), Errc::kStoreInUse);
}

TEST(FileFaultsTest, TheConnectionForRenewalsMakesNoLogOfItsOwn) {
  const TempFolder folder;
  auto holder = open_client(folder / "locks.db");
  const auto request = request_for("a");
  const auto held = holder->acquire(request);
  fs::remove(folder / "locks.db-wal");
  EXPECT_EQ(holder->renew("a", request.id, 1, 30s, held->token).error().code(), Errc::kLost);
  EXPECT_FALSE(fs::exists(folder / "locks.db-wal"));
}

TEST(FileFaultsTest, TokensGoOnAboveThoseOfALogThatWasLostWithItsUsers) {
  const TempFolder folder;
  machine::Token last;
  open_client(folder / "locks.db");
  {
    auto client = open_client(folder / "locks.db");
    last = client->acquire(request_for("a"))->token;
    fs::copy_file(folder / "locks.db.use", folder / "killed.db.use");
    // As after kill -9 and the removal of the log.
    fs::copy_file(folder / "locks.db", folder / "kept");
  }
  std::ifstream from(folder / "kept", std::ios::binary);
  std::fstream to(folder / "locks.db", std::ios::binary | std::ios::in | std::ios::out);
  to << from.rdbuf();
  to.close();
  std::ifstream note(folder / "killed.db.use", std::ios::binary);
  std::fstream use(folder / "locks.db.use", std::ios::binary | std::ios::in | std::ios::out);
  use << note.rdbuf();
  use.close();
  auto client = open_client(folder / "locks.db");
  const auto held = client->acquire(request_for("a"));
  ASSERT_TRUE(held) << held.error().message();
  EXPECT_GT(held->token.counter, last.counter);
}

// A rename keeps inode and birth time, and leaves the log and FILE.use behind.
TEST(FileFaultsTest, AMovedFileIsRefusedUnderItsNewNameWhileSomebodyHasItOpen) {
  for (const bool linked : {false, true}) {
    const TempFolder folder;
    fs::create_directory(folder / "data");
    auto holder = open_client(folder / "locks.db");
    const auto request = request_for("a");
    const auto held = holder->acquire(request);
    ASSERT_TRUE(held);
    fs::rename(folder / "locks.db", folder / "data/locks.db");
    if (linked) fs::create_symlink(folder / "data/locks.db", folder / "locks.db");
    const std::string now = folder / (linked ? "locks.db" : "data/locks.db");
    const auto early = TestClient::open(now, impatient());
    ASSERT_FALSE(early) << "a second holder beside the first";
    EXPECT_EQ(early.error().code(), Errc::kStoreInUse) << early.error().message();
    EXPECT_FALSE(fs::exists(folder / "data/locks.db.use"));
    EXPECT_EQ(holder->renew("a", request.id, 1, 30s, held->token).error().code(), Errc::kLost);
    ASSERT_TRUE(holder->release("a", request.id));
    holder->store->close(soon(100ms));
    auto other = open_client(now);
    ASSERT_TRUE(other);
    const auto next = other->acquire(request_for("a"));
    ASSERT_TRUE(next);
    EXPECT_EQ(next->status, AcquisitionStatus::kHeld);
    EXPECT_GT(next->token.counter, held->token.counter);
  }
}

TEST(FileFaultsTest, AMovedFileStartsANewFloorAndKeepsItsLeases) {
  const TempFolder folder;
  std::uint64_t last = 0;
  const auto kept = request_for("kept");
  {
    auto client = open_client(folder / "locks.db");
    ASSERT_TRUE(client->acquire(kept));
    const auto request = request_for("a");
    last = client->acquire(request)->token.counter;
    ASSERT_TRUE(client->release("a", request.id));
  }
  fs::rename(folder / "locks.db", folder / "moved.db");
  auto client = open_client(folder / "moved.db");
  EXPECT_GT(client->acquire(request_for("a"))->token.counter, last + 1000);
  EXPECT_EQ(client->acquire(request_for("kept"))->status, AcquisitionStatus::kWaiting);
}

TEST(FileFaultsTest, ARefusedStoreLeavesNothingBehind) {
  const TempFolder folder;
  fs::create_directory(folder / "folder");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::ofstream(folder / "text") << std::string(20'000, 'x');
  execute(folder / "foreign", "CREATE TABLE mine(x)");
  for (const char* name : {"folder", "fifo", "text", "foreign"}) {
    EXPECT_FALSE(TestClient::open(folder / name, impatient())) << name;
  }
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    left.insert(entry.path().filename());
  }
  EXPECT_EQ(left, (std::set<std::string>{"folder", "fifo", "text", "foreign"}));
}

TEST(FileFaultsTest, AHardLinkIsRefused) {
  const TempFolder folder;
  open_client(folder / "locks.db");
  fs::create_hard_link(folder / "locks.db", folder / "link.db");
  for (const char* name : {"locks.db", "link.db"}) {
    const auto opened = TestClient::open(folder / name, impatient());
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().code(), Errc::kUnsupported);
    EXPECT_NE(opened.error().message().find("hard links"), std::string::npos);
  }
}

TEST(FileFaultsTest, ASymbolicLinkLeadsToTheSameLocks) {
  const TempFolder folder;
  auto direct = open_client(folder / "locks.db");
  fs::create_symlink(folder / "locks.db", folder / "link.db");
  auto linked = open_client(folder / "link.db");
  ASSERT_TRUE(linked);
  ASSERT_TRUE(direct->acquire(request_for("a")));
  EXPECT_EQ(linked->acquire(request_for("a"))->status, AcquisitionStatus::kWaiting);
  EXPECT_FALSE(fs::exists(folder / "link.db-wal"));
}

TEST(FileFaultsTest, AFileSystemThatIsNotListedIsRefusedByName) {
  const auto opened = TestClient::open("/proc/locks.db", impatient());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Errc::kUnsupported) << opened.error().message();
  EXPECT_NE(opened.error().message().find("proc"), std::string::npos);
  EXPECT_FALSE(file_system_of(0x6969).allowed);      // nfs
  EXPECT_FALSE(file_system_of(0x65735546).allowed);  // fuse
  EXPECT_FALSE(file_system_of(0xff534d42).allowed);  // cifs
  EXPECT_FALSE(file_system_of(0x12345678).allowed);  // nobody listed it
  EXPECT_EQ(file_system_of(0x12345678).name, "type 0x12345678");
  EXPECT_TRUE(file_system_of(0xef53).allowed);
  EXPECT_TRUE(file_system_of(0x794c7630).overlay);
}

TEST(FileFaultsTest, ANewerFormatIsRefusedByNumber) {
  const TempFolder folder;
  open_client(folder / "locks.db");
  execute(folder / "locks.db", "PRAGMA user_version = 99");
  const auto opened = TestClient::open(folder / "locks.db", impatient());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Errc::kVersionMismatch);
  EXPECT_NE(opened.error().message().find("99"), std::string::npos);
}

TEST(FileFaultsTest, ForeignAndDamagedFilesAreErrorsAndStayAsTheyAre) {
  const TempFolder folder;
  execute(folder / "foreign.db", "CREATE TABLE mine(x); INSERT INTO mine VALUES(7)");
  EXPECT_EQ(code_of(TestClient::open(folder / "foreign.db", impatient())), Errc::kCorruptState);
  execute(folder / "foreign.db", "SELECT x FROM mine");

  std::ofstream(folder / "text.db") << std::string(20'000, 'x');
  EXPECT_EQ(code_of(TestClient::open(folder / "text.db", impatient())), Errc::kCorruptState);
  EXPECT_EQ(fs::file_size(folder / "text.db"), 20'000U);
}

TEST(FileFaultsTest, AnEmptyFileBecomesAStore) {
  const TempFolder folder;
  std::ofstream(folder / "locks.db").close();
  auto client = open_client(folder / "locks.db");
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->acquire(request_for("a")));
}

TEST(FileFaultsTest, DamagedPagesAreAnErrorNeverAnAbort) {
  const TempFolder folder;
  {
    auto client = open_client(folder / "locks.db");
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(client->acquire(request_for("lock" + std::to_string(i))));
    }
  }
  std::fstream file(folder / "locks.db", std::ios::binary | std::ios::in | std::ios::out);
  for (std::uintmax_t at = 4096; at + 64 < fs::file_size(folder / "locks.db"); at += 512) {
    file.seekp(static_cast<std::streamoff>(at));
    file << std::string(64, '\xa5');
  }
  file.close();
  const auto opened = TestClient::open(folder / "locks.db", impatient());
  if (!opened) {
    EXPECT_EQ(opened.error().code(), Errc::kCorruptState) << opened.error().message();
    return;
  }
  const auto held = (*opened)->acquire(request_for("lock7"));
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code(), Errc::kCorruptState) << held.error().message();
}

TEST(FileFaultsTest, RowsThatMakeNoSenseAreAnErrorThatNamesTheLock) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  ASSERT_TRUE(client->acquire(request_for("a")));
  for (const char* damage :
       {"UPDATE locks SET capacity = -1", "UPDATE locks SET capacity = 1, kind = 7",
        "UPDATE locks SET kind = 0, owner = x'ff00'", "UPDATE locks SET owner = NULL, tickets = 3",
        "UPDATE locks SET tickets = 0, solo_id = x'00'",
        "UPDATE locks SET solo_id = NULL, tickets = 2"}) {
    execute(folder / "locks.db", damage);
    const auto busy = client->acquire(request_for("a"));
    ASSERT_FALSE(busy) << damage;
    EXPECT_EQ(busy.error().code(), Errc::kCorruptState) << damage;
  }
}

// Early versions knew locks whose queue could be overtaken.
TEST(FileFaultsTest, ALockWithTheOldBargingPolicyIsServedInOrder) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto first = request_for("a");
  const auto second = request_for("a");
  auto newcomer = request_for("a");
  newcomer.may_wait = false;
  ASSERT_EQ(client->acquire(first)->status, AcquisitionStatus::kHeld);
  ASSERT_EQ(client->acquire(second)->status, AcquisitionStatus::kWaiting);
  execute(folder / "locks.db", "UPDATE locks SET policy = 1");
  EXPECT_EQ(client->acquire(newcomer)->status, AcquisitionStatus::kBusy);
  ASSERT_TRUE(client->release("a", first.id));
  EXPECT_EQ(client->renew("a", second.id, 1)->status, AcquisitionStatus::kHeld);
}

TEST(FileFaultsTest, AnotherBootVoidsLeasesOnlyWhenItHasTheFileToItself) {
  const TempFolder folder;
  SqliteTuning before = impatient();
  before.boot_id = "boot-1";
  SqliteTuning after = impatient();
  after.boot_id = "boot-2";
  std::uint64_t last = 0;
  {
    auto client = open_client(folder / "locks.db", before);
    last = client->acquire(request_for("a"))->token.counter;
    EXPECT_EQ(code_of(TestClient::open(folder / "locks.db", after)), Errc::kStoreInUse);
    auto friendly = open_client(folder / "locks.db", before);
    EXPECT_EQ(friendly->acquire(request_for("a"))->status, AcquisitionStatus::kWaiting);
  }
  auto client = open_client(folder / "locks.db", after);
  ASSERT_TRUE(client);
  const auto held = client->acquire(request_for("a"));
  ASSERT_TRUE(held);
  EXPECT_EQ(held->status, AcquisitionStatus::kHeld);
  EXPECT_GT(held->token.counter, last);
  EXPECT_GT(client->acquire(request_for("never seen"))->token.counter, last);
}

TEST(FileFaultsTest, ALeaseWithoutAProcessSurvivesTheLossOfTheUseFile) {
  const TempFolder folder;
  const auto request = request_for("a");
  {
    auto client = open_client(folder / "locks.db");
    ASSERT_TRUE(client->acquire(request));
  }
  fs::remove(folder / "locks.db.use");
  auto client = open_client(folder / "locks.db");
  EXPECT_EQ(client->acquire(request_for("a"))->status, AcquisitionStatus::kWaiting);
  EXPECT_EQ(*client->release("a", request.id), EndStatus::kReleased);
}

TEST(FileFaultsTest, ManyWhoStartAtOnceAgreeOnOneFile) {
  const TempFolder folder;
  std::vector<std::thread> threads;
  std::atomic<int> held{0};
  std::atomic<int> failed{0};
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      auto client = TestClient::open(folder / "x/locks.db");
      auto request = request_for("a");
      request.may_wait = false;
      const auto got = client ? (*client)->acquire(request) : client.error();
      if (!got) ++failed;
      if (got && got->status == AcquisitionStatus::kHeld) ++held;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(held, 1);
}

}  // namespace
}  // namespace holdfast::stores::sqlite::testing
