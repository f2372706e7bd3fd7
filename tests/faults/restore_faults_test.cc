// An old copy of the lock file is written over it in place, as `cp` does, while nobody uses it: the
// same file to the system, with another past.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

namespace fs = std::filesystem;

using Suffixes = std::vector<const char*>;

struct Restored {
  const char* name;
  bool killed;       // kill -9 of the last user; otherwise it leaves in order.
  Suffixes copied;   // These files are put back.
  Suffixes removed;  // These files are removed before.
};

void PrintTo(const Restored& restored, std::ostream* out) { *out << restored.name; }

const Restored kRestored[] = {
    {"LeftInOrder", false, {""}, {}},
    {"LeftInOrderWithLog", false, {"", "-wal"}, {}},
    {"LeftInOrderWithLogAndShm", false, {"", "-wal", "-shm"}, {}},
    {"Killed", true, {""}, {"-wal", "-shm"}},
    {"KilledWithLog", true, {"", "-wal"}, {}},
    {"KilledWithLogAndShm", true, {"", "-wal", "-shm"}, {}},
    {"KilledWithLogShmRemoved", true, {"", "-wal"}, {"-shm"}},
};

// A file that is there keeps its inode.
void write_over(const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  std::ofstream out(to, std::ios::binary | std::ios::trunc);
  if (in.peek() != std::ifstream::traits_type::eof()) out << in.rdbuf();
}

class RestoreTest : public testing::Test {
 protected:
  void copy_all() {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      write_over(folder_.file("locks.db") + suffix, folder_.file("copy") + suffix);
    }
  }
  void put_back(const Suffixes& copied, const Suffixes& removed = {}) {
    for (const char* suffix : removed) fs::remove(folder_.file("locks.db") + suffix);
    for (const char* suffix : copied) {
      write_over(folder_.file("copy") + suffix, folder_.file("locks.db") + suffix);
    }
  }
  // Takes over at once, is told why, and gets tokens above all that were ever given.
  void expect_found_out(const std::string& name, const std::string& highest) {
    ActorProcess next;
    const Line connected = next.ask("connect " + folder_.url());
    ASSERT_EQ(connected.word, "ok") << connected.get("text");
    const Line granted = next.ask("acquire " + name + " 5000 0");
    ASSERT_EQ(granted.word, "granted") << "a lease came back: " << granted.get("text");
    EXPECT_GT(granted.get("token"), highest);
    const Line told = next.event("log");
    EXPECT_NE(told.get("text").find("older copy"), std::string::npos) << told.get("text");
  }

  TempFolder folder_;
};

class RestoreFaultsTest : public RestoreTest, public testing::WithParamInterface<Restored> {
 protected:
  void leave_and_put_back(ActorProcess& actor) {
    if (GetParam().killed) {
      actor.kill();
    } else {
      ASSERT_EQ(actor.ask("close").word, "ok");
    }
    put_back(GetParam().copied, GetParam().removed);
  }
};

TEST_P(RestoreFaultsTest, AReleasedLeaseDoesNotComeBackAndTokensGoOn) {
  ActorProcess first(folder_.url());
  ASSERT_EQ(first.ask("acquire a 60000").word, "granted");
  copy_all();
  ASSERT_EQ(first.ask("release").word, "ok");
  const Line last = first.ask("churn a 5");
  ASSERT_EQ(last.word, "churned") << last.get("text");
  leave_and_put_back(first);
  expect_found_out("a", last.get("token"));
}

TEST_P(RestoreFaultsTest, ACopyOfTheInstantBeforeTheLastGrantIsFoundOut) {
  ActorProcess first(folder_.url());
  ASSERT_EQ(first.ask("churn a 5").word, "churned");
  copy_all();
  const Line last = first.ask("acquire b 60000");
  ASSERT_EQ(last.word, "granted");
  leave_and_put_back(first);
  expect_found_out("b", last.get("token"));
}

// By the release alone: its token was given before.
TEST_P(RestoreFaultsTest, ACopyOfTheInstantBeforeTheLastReleaseIsFoundOut) {
  ActorProcess first(folder_.url());
  const Line last = first.ask("acquire a 60000");
  copy_all();
  ASSERT_EQ(first.ask("release").word, "ok");
  leave_and_put_back(first);
  expect_found_out("a", last.get("token"));
}

TEST_F(RestoreTest, ACopyOfTheNewestStateKeepsItsLeases) {
  ActorProcess first(folder_.url());
  const Line held = first.ask("acquire a 60000");
  ASSERT_EQ(held.word, "granted");
  copy_all();
  first.kill();
  put_back({"", "-wal"});
  ActorProcess next(folder_.url());
  EXPECT_EQ(next.ask("acquire a 5000 0").get("code"), "kTimedOut");
  EXPECT_EQ(next.ask("look a").get("token"), held.get("token"));
  EXPECT_FALSE(next.has_event("log"));
}

INSTANTIATE_TEST_SUITE_P(Cases, RestoreFaultsTest, testing::ValuesIn(kRestored),
                         [](const auto& one) { return std::string(one.param.name); });

// The log was folded into the file and begun anew since the copy: it has what came last, and the
// copy what came first, but neither has the release between.
TEST_F(RestoreTest, ALogThatIsYoungerThanTheCopyDoesNotHideIt) {
  ActorProcess first(folder_.url());
  // On another page of the file than the lock that is churned.
  for (int lock = 0; lock < 200; ++lock) {
    ASSERT_EQ(first.ask("churn lock" + std::to_string(1000 + lock) + " 1").word, "churned");
  }
  const Line held = first.ask("acquire lock1000 60000");
  ASSERT_EQ(held.word, "granted");
  {
    ActorProcess other(folder_.url());
    ASSERT_EQ(other.ask("churn lock1199 5000").word, "churned");
  }
  copy_all();
  ASSERT_EQ(first.ask("release").word, "ok");
  const Line last = first.ask("churn lock1199 9000", 30s);
  ASSERT_EQ(last.word, "churned");
  first.kill();
  put_back({""});
  expect_found_out("lock1000", std::max(held.get("token"), last.get("token")));
}

// Changes that they had reported before the kill are there, wherever in a commit or in the folding
// of the log it struck; nothing is void.
TEST_F(RestoreTest, UsersThatAreKilledLeaveNothingThatLooksLikeAnOlderCopy) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::minstd_rand dice(seed);
  std::string kept;
  {
    ActorProcess holder(folder_.url());
    const Line held = holder.ask("acquire kept 60000");
    ASSERT_EQ(held.word, "granted") << held.get("text");
    kept = held.get("token");
    holder.kill();
  }
  for (int round = 0; round < 12; ++round) {
    {
      std::array<ActorProcess, 3> users;
      for (ActorProcess& user : users) {
        const Line connected = user.ask("connect " + folder_.url());
        ASSERT_EQ(connected.word, "ok") << connected.get("text");
        EXPECT_FALSE(user.has_event("log"));
        user.send("churn lock" + std::to_string(dice() % 2) + " 1000000");
      }
      let_pass(milliseconds(dice() % 250));
      for (ActorProcess& user : users) user.kill();
    }
    ActorProcess next(folder_.url());
    EXPECT_EQ(next.ask("look kept").get("token"), kept);
    EXPECT_FALSE(next.has_event("log"));
  }
}

// Nothing says otherwise, so leases are as of the copy; tokens go on above the wall clock.
TEST_F(RestoreTest, TokensGoOnWhenEverythingIsPutBack) {
  ActorProcess first(folder_.url());
  ASSERT_EQ(first.ask("churn a 5").word, "churned");
  copy_all();
  write_over(folder_.file("locks.db.use"), folder_.file("copy.use"));
  const Line last = first.ask("churn a 5");
  first.kill();
  put_back({"", "-wal", "-shm", ".use"});
  ActorProcess next(folder_.url());
  const Line again = next.ask("churn a 1");
  ASSERT_EQ(again.word, "churned");
  EXPECT_GT(again.get("token"), last.get("token"));
}

}  // namespace
}  // namespace holdfast::faults
