// Where the lock file is: not there yet, not ours, not a file, on a full disk.
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

constexpr const char* kNobody = "65534";

TEST(PlaceTest, AFolderThatIsMissingIsMade) {
  const TempFolder folder;
  ActorProcess actor;
  const Line connected = actor.ask("connect sqlite://" + folder.file("some/where/locks.db"));
  ASSERT_EQ(connected.word, "ok") << connected.get("text");
  EXPECT_EQ(actor.ask("acquire a 1000").word, "granted");
  EXPECT_EQ(actor.ask("release").word, "ok");
}

TEST(PlaceTest, ProcessesThatMeetInAMissingFolderShareTheLock) {
  const TempFolder folder;
  const std::string connect = "connect sqlite://" + folder.file("new/locks.db");
  std::array<ActorProcess, 4> actors;
  for (ActorProcess& actor : actors) actor.send(connect);
  for (ActorProcess& actor : actors) {
    const Line connected = actor.answer();
    ASSERT_EQ(connected.word, "ok") << connected.get("text");
  }
  int granted = 0;
  for (ActorProcess& actor : actors) actor.send("acquire a 5000 0");
  for (ActorProcess& actor : actors) granted += actor.answer().word == "granted" ? 1 : 0;
  EXPECT_EQ(granted, 1);
}

TEST(PlaceTest, ARelativePathIsRefused) {
  ActorProcess actor;
  for (const char* url : {"sqlite:locks.db", "sqlite:./locks.db", "sqlite://locks.db"}) {
    const Line refused = actor.ask(std::string("connect ") + url);
    EXPECT_EQ(refused.word, "failed") << url;
    EXPECT_EQ(refused.get("code"), "kInvalidArgument") << url;
    EXPECT_FALSE(refused.get("text").empty());
  }
}

TEST(PlaceTest, AFolderInPlaceOfTheFileIsAClearError) {
  const TempFolder folder;
  ASSERT_EQ(::mkdir(folder.file("locks.db").c_str(), 0700), 0);
  ActorProcess actor;
  const Line refused = actor.ask("connect " + folder.url());
  ASSERT_EQ(refused.word, "failed");
  EXPECT_NE(refused.get("text").find(folder.file("locks.db")), std::string::npos)
      << refused.get("text");
  EXPECT_TRUE(refused.get("code") == "kUnsupported" || refused.get("code") == "kCorruptState" ||
              refused.get("code") == "kInvalidArgument")
      << refused.get("code") << " " << refused.get("text");
}

TEST(PlaceTest, AFileOfSomethingElseIsRefusedAndLeftAlone) {
  const TempFolder folder;
  const std::string text = "not a database, and dear to somebody\n";
  std::ofstream(folder.file("locks.db")) << text;
  ActorProcess actor;
  const Line refused = actor.ask("connect " + folder.url());
  ASSERT_EQ(refused.word, "failed");
  EXPECT_EQ(refused.get("code"), "kCorruptState") << refused.get("text");
  EXPECT_NE(refused.get("text").find(folder.file("locks.db")), std::string::npos);
  std::ifstream in(folder.file("locks.db"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
}

// As root, for a file that another user may not read or write.
class TwoUsersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "SKIPPED: two users need root";
    ::chmod(folder_.path().c_str(), 0755);
  }
  Line refused_to_nobody(const std::string& url) {
    ActorProcess nobody;
    EXPECT_EQ(nobody.ask(std::string("become ") + kNobody).word, "ok");
    return nobody.ask("connect " + url);
  }
  TempFolder folder_;
};

TEST_F(TwoUsersTest, AFileOfAnotherIsRefusedByItsName) {
  for (const mode_t mode : {0600U, 0644U}) {
    const std::string name = "locks" + std::to_string(mode) + ".db";
    ActorProcess owner(folder_.url(name));
    ASSERT_EQ(owner.ask("acquire a 1000").word, "granted");
    ASSERT_EQ(::chmod(folder_.file(name).c_str(), mode), 0);
    const Line refused = refused_to_nobody(folder_.url(name));
    ASSERT_EQ(refused.word, "failed") << std::oct << mode;
    EXPECT_EQ(refused.get("code"), "kPermissionDenied") << refused.get("text");
    EXPECT_NE(refused.get("text").find(folder_.file(name)), std::string::npos)
        << refused.get("text");
    EXPECT_EQ(owner.ask("state").get("held"), "yes");
  }
}

TEST_F(TwoUsersTest, AFolderOfAnotherIsRefusedByItsName) {
  ASSERT_EQ(::mkdir(folder_.file("closed").c_str(), 0700), 0);
  for (const char* place : {"closed/locks.db", "locks.db"}) {
    const Line refused = refused_to_nobody(folder_.url(place));
    ASSERT_EQ(refused.word, "failed") << place;
    EXPECT_EQ(refused.get("code"), "kPermissionDenied") << refused.get("text");
    EXPECT_NE(refused.get("text").find(folder_.path()), std::string::npos) << refused.get("text");
  }
}

TEST_F(TwoUsersTest, AFileThatBothMayWriteServesBoth) {
  ASSERT_EQ(::mkdir(folder_.file("shared").c_str(), 0777), 0);
  ASSERT_EQ(::chmod(folder_.file("shared").c_str(), 0777), 0);
  ::umask(0);
  ActorProcess owner(folder_.url("shared/locks.db"));
  ::umask(022);
  ActorProcess nobody;
  ASSERT_EQ(nobody.ask(std::string("become ") + kNobody).word, "ok");
  const Line connected = nobody.ask("connect " + folder_.url("shared/locks.db"));
  ASSERT_EQ(connected.word, "ok") << connected.get("text");
  const Line held = owner.ask("acquire a 20000");
  ASSERT_EQ(held.word, "granted");
  nobody.queue_up("a", 20s);
  const Line released = owner.ask("release");
  ASSERT_EQ(released.word, "ok");
  const Line next = nobody.answer();
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GT(next.get("token"), held.get("token"));
  EXPECT_LT(next.number("at") - released.number("invoked"), ns(500ms)) << "not woken";
}

// Whether `uid` may open it at least to read, which is enough to lock it.
bool may_read(const std::string& path, uid_t uid) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool opened = ::setresuid(uid, uid, uid) == 0 && ::open(path.c_str(), O_RDONLY) >= 0;
    ::_exit(opened ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(TwoUsersTest, WhoMayNotWriteTheFileCannotLockItsUsersOut) {
  ::umask(022);
  for (int use = 0; use < 2; ++use) {
    ActorProcess owner(folder_.url());
    ASSERT_EQ(owner.ask("acquire a 1000").word, "granted");
    for (const char* suffix : {"", "-wal", "-shm", ".use"}) {
      EXPECT_FALSE(may_read(folder_.file("locks.db") + suffix, 65534)) << suffix;
    }
    owner.kill();
    // As an earlier version left it; the next use tightens it.
    ASSERT_EQ(::chmod(folder_.file("locks.db.use").c_str(), 0644), 0);
    ASSERT_TRUE(may_read(folder_.file("locks.db.use"), 65534));
  }
}

class LongReader {
 public:
  explicit LongReader(const std::string& path) {
    EXPECT_EQ(sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK);
    const char* const read = "BEGIN; SELECT count(*) FROM sqlite_schema";
    EXPECT_EQ(sqlite3_exec(db_, read, nullptr, nullptr, nullptr), SQLITE_OK);
  }
  ~LongReader() { sqlite3_close_v2(db_); }
  LongReader(const LongReader&) = delete;
  LongReader& operator=(const LongReader&) = delete;

 private:
  sqlite3* db_ = nullptr;
};

// A file system of one MiB, in a mount namespace that ends with this process.
class FullDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "SKIPPED: a file system of one's own needs root";
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("holdfast", folder_.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      GTEST_SKIP() << "SKIPPED: cannot mount a tmpfs here";
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  void fill() {
    const int fd = ::open(folder_.file("filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    static const std::array<char, 4096> page{};
    while (::write(fd, page.data(), page.size()) > 0) {
    }
    ::close(fd);
  }
  // Asks for what needs more and more room, until it fails.
  Line use_up(ActorProcess& actor) {
    Line answer;
    for (int i = 0; i < 5'000 && answer.word != "failed"; ++i) {
      const std::int64_t asked = host_boot_ns();
      answer = actor.ask("acquire filler" + std::to_string(i) + " 1000 0");
      EXPECT_LT(host_boot_ns() - asked, ns(6s)) << "hangs";
    }
    return answer;
  }
  void make_room() { ::unlink(folder_.file("filler").c_str()); }

  TempFolder folder_;
  bool mounted_ = false;
};

TEST_F(FullDiskTest, ARequestFailsClearlyAndWorksAgainWhenThereIsRoom) {
  ActorProcess actor(folder_.url());
  ActorProcess other(folder_.url());
  const Line before = actor.ask("acquire a 1000");
  ASSERT_EQ(before.word, "granted");
  ASSERT_EQ(actor.ask("release").word, "ok");
  fill();
  const Line failed = use_up(actor);
  ASSERT_EQ(failed.word, "failed") << "the disk was not full";
  EXPECT_EQ(failed.get("code"), "kUnavailable") << failed.get("text");
  EXPECT_NE(failed.get("text").find(folder_.file("locks.db")), std::string::npos)
      << failed.get("text");

  make_room();
  const Line after = actor.ask("acquire a 1000 3000");
  ASSERT_EQ(after.word, "granted") << after.get("text");
  EXPECT_GT(after.get("token"), before.get("token"));
  EXPECT_EQ(other.ask("acquire a 1000 0").get("code"), "kTimedOut");
  EXPECT_EQ(actor.ask("release").word, "ok");
  const Line next = other.ask("acquire a 1000 3000");
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GT(next.get("token"), after.get("token"));
}

TEST_F(FullDiskTest, AHolderGoesOnWithTheRoomThatTheStoreHas) {
  ActorProcess holder(folder_.url());
  ActorProcess other(folder_.url());
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  fill();
  EXPECT_EQ(use_up(other).word, "failed") << "the disk was not full";
  // Three leases, while others go on asking for more room than there is.
  const std::int64_t until = host_boot_ns() + ns(3s);
  for (int i = 0; host_boot_ns() < until; ++i) {
    other.ask("acquire more" + std::to_string(i) + " 1000 0");
    let_pass(50ms);
  }
  EXPECT_EQ(holder.ask("state").get("held"), "yes");
  EXPECT_FALSE(holder.has_event("lost"));
  EXPECT_EQ(holder.ask("release").word, "ok");
}

TEST_F(FullDiskTest, AHolderThatCannotRenewIsLostInTimeAndNobodyElseHoldsBefore) {
  ActorProcess holder(folder_.url());
  ActorProcess other(folder_.url());
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  // Somebody who reads the file for long, a backup perhaps, keeps the log from being folded.
  const LongReader reader(folder_.file("locks.db"));
  fill();
  EXPECT_EQ(use_up(other).word, "failed") << "the disk was not full";
  const Line lost = holder.event("lost");
  EXPECT_EQ(lost.get("code"), "kLost");
  const Line state = holder.ask("state");
  EXPECT_EQ(state.get("held"), "no");
  EXPECT_GE(lost.number("at"), state.number("deadline"));
  make_room();
  const Line next = other.ask("acquire a 1000 5000");
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GE(next.number("at"), state.number("deadline"));
  EXPECT_GT(next.get("token"), state.get("token"));
}

TEST_F(FullDiskTest, ConnectingOnAFullDiskFailsClearlyAndWorksLater) {
  fill();
  ActorProcess actor;
  const std::int64_t asked = host_boot_ns();
  const Line failed = actor.ask("connect " + folder_.url());
  EXPECT_LT(host_boot_ns() - asked, ns(6s));
  ASSERT_EQ(failed.word, "failed");
  EXPECT_EQ(failed.get("code"), "kUnavailable") << failed.get("text");
  make_room();
  const Line connected = actor.ask("connect " + folder_.url());
  ASSERT_EQ(connected.word, "ok") << connected.get("text");
  EXPECT_EQ(actor.ask("acquire a 1000").word, "granted");
}

// The journal alone outgrows a small disk, unless it is folded back in time.
TEST_F(FullDiskTest, ASmallDiskIsEnoughForEver) {
  ActorProcess actor(folder_.url());
  for (int i = 0; i < 1'000; ++i) {
    const Line granted = actor.ask("acquire a 1000 0");
    ASSERT_EQ(granted.word, "granted") << "round " << i << ": " << granted.get("text");
    const Line released = actor.ask("release");
    ASSERT_EQ(released.word, "ok") << "round " << i << ": " << released.get("text");
  }
}

// The file has to grow when the journal is folded into it. If the journal has left no room for that
// nothing ever works again, although nearly all of the journal is history.
TEST_F(FullDiskTest, TheJournalLeavesRoomForTheFile) {
  ActorProcess actor(folder_.url());
  for (int i = 0; i < 300; ++i) {
    const Line granted = actor.ask("acquire job" + std::to_string(i) + " 60000 0");
    ASSERT_EQ(granted.word, "granted") << "lock " << i << ": " << granted.get("text");
  }
  ASSERT_EQ(actor.ask("release").word, "ok");
}

}  // namespace
}  // namespace holdfast::faults
