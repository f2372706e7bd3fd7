// These tests damage the file's log, and its name, under processes that hold locks.
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

namespace fs = std::filesystem;

// In the place of the file, while somebody holds the lock there.
using Deed = std::function<void(const TempFolder&)>;

struct Case {
  const char* name;
  Deed deed;
};

void remove(const TempFolder& folder, const char* name) { fs::remove(folder.file(name)); }

const Case kCases[] = {
    {"WalAndShmRemoved",
     [](const TempFolder& folder) {
       remove(folder, "locks.db-wal");
       remove(folder, "locks.db-shm");
     }},
    {"ShmRemoved", [](const TempFolder& folder) { remove(folder, "locks.db-shm"); }},
    {"WalRemoved", [](const TempFolder& folder) { remove(folder, "locks.db-wal"); }},
    {"AllButTheFileRemoved",
     [](const TempFolder& folder) {
       for (const char* name : {"locks.db-wal", "locks.db-shm", "locks.db.use"}) {
         remove(folder, name);
       }
     }},
    {"MovedBehindALink",
     [](const TempFolder& folder) {
       fs::create_directory(folder.file("data"));
       fs::rename(folder.file("locks.db"), folder.file("data/locks.db"));
       fs::create_symlink(folder.file("data/locks.db"), folder.file("locks.db"));
     }},
};

class LogFaultsTest : public testing::TestWithParam<Case> {
 protected:
  // Tries until it may.
  Line connected(ActorProcess& actor) {
    const std::int64_t until = host_boot_ns() + ns(60s);
    for (;;) {
      Line answer = actor.ask("connect " + folder_.url());
      if (answer.word == "ok" || host_boot_ns() > until) return answer;
      EXPECT_EQ(answer.get("code"), "kStoreInUse") << answer.get("text");
    }
  }
  TempFolder folder_;
};

TEST_P(LogFaultsTest, TheNextHolderComesWhenTheFirstKnows) {
  ActorProcess first(folder_.url());
  const Line held = first.ask("acquire a 1000");
  ASSERT_EQ(held.word, "granted");
  GetParam().deed(folder_);
  ActorProcess other;
  const Line in = connected(other);
  ASSERT_EQ(in.word, "ok") << in.get("text");
  const Line next = other.ask("acquire a 1500 5000");
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GT(next.get("token"), held.get("token"));
  const Line lost = first.event("lost");
  EXPECT_EQ(lost.get("code"), "kLost");
  EXPECT_LE(lost.number("at"), next.number("at"));
}

TEST_P(LogFaultsTest, TokensGrowWhenTheHolderIsKilledThen) {
  ActorProcess first(folder_.url());
  const Line held = first.ask("acquire a 1500");
  ASSERT_EQ(held.word, "granted");
  GetParam().deed(folder_);
  first.kill();
  ActorProcess other;
  ASSERT_EQ(connected(other).word, "ok");
  const Line next = other.ask("acquire a 1500 5000");
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GT(next.get("token"), held.get("token"));
}

INSTANTIATE_TEST_SUITE_P(Deeds, LogFaultsTest, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace holdfast::faults
