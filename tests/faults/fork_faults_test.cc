// fork(): a child inherits the memory of a holder, and no lock.
#include <gtest/gtest.h>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

class ForkTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Ends, ForkTest, testing::Values("exit", "_exit"), [](const auto& each) {
  return std::string(each.param) == "exit" ? "Exit" : "UnderscoreExit";
});

TEST_P(ForkTest, AChildHoldsNothingAndDisturbsNothing) {
  const TempFolder folder;
  ActorProcess parent(folder.url());
  ActorProcess other(folder.url());
  const Line held = parent.ask("acquire a 1000");
  ASSERT_EQ(held.word, "granted");
  other.queue_up("a", 1s);

  const Line child = parent.ask(std::string("fork-look ") + GetParam());
  EXPECT_EQ(child.get("status"), "0");
  EXPECT_EQ(child.get("held"), "no");
  EXPECT_EQ(child.get("loss"), "kClosed");
  EXPECT_EQ(child.get("remaining"), "0");
  for (const char* call : {"renew", "release", "acquire", "inspect", "close"}) {
    EXPECT_EQ(child.get(call), "kClosed") << call;
  }
  // The child owns what it made itself.
  EXPECT_EQ(child.get("connect"), "ok") << child.get("text");
  EXPECT_EQ(child.get("same"), "kTimedOut");
  EXPECT_EQ(child.get("own"), "ok");
  EXPECT_EQ(child.get("own_release"), "ok");

  // The parent's lease was neither released nor left without renewal.
  let_pass(1500ms);
  const Line after = parent.ask("state");
  EXPECT_EQ(after.get("held"), "yes");
  const Line released = parent.ask("release");
  ASSERT_EQ(released.word, "ok") << released.get("text");
  const Line next = other.answer();
  ASSERT_EQ(next.word, "granted");
  EXPECT_GE(next.number("at"), released.number("invoked"));
  EXPECT_GT(next.get("token"), held.get("token"));
}

// SQLite keeps a process' file locks in memory, which a child inherits, and the locks themselves it
// does not: the child's own connection must count as a user of the file all the same.
TEST(ForkChildTest, ItsOwnLockOutlivesTheParentsClient) {
  const TempFolder folder;
  ActorProcess parent(folder.url());
  const Line kept = parent.ask("fork-keep a 1000");
  ASSERT_EQ(kept.word, "kept") << kept.get("text");
  ASSERT_EQ(parent.ask("close").word, "ok");

  ActorProcess other(folder.url());
  EXPECT_EQ(other.ask("acquire a 1000 1500").get("code"), "kTimedOut") << "two at once";
  EXPECT_EQ(other.ask("look a").get("token"), kept.get("token"));
  const Line ended = parent.ask("fork-end");
  EXPECT_EQ(ended.word, "ended");
  EXPECT_EQ(ended.get("held"), "yes");
  EXPECT_EQ(ended.get("release"), "ok");
  const Line next = other.ask("acquire a 1000 3000");
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GT(next.get("token"), kept.get("token"));
}

TEST(ForkChildTest, ItsEndLeavesTheParentsLocksAlone) {
  const TempFolder folder;
  ActorProcess parent(folder.url());
  const Line held = parent.ask("acquire b 1000");
  ASSERT_EQ(held.word, "granted");
  const Line kept = parent.ask("fork-keep a 1000");
  ASSERT_EQ(kept.word, "kept") << kept.get("text");
  ASSERT_EQ(parent.ask("fork-end").get("release"), "ok");

  ActorProcess other(folder.url());
  EXPECT_EQ(other.ask("acquire b 1000 1500").get("code"), "kTimedOut") << "two at once";
  EXPECT_EQ(parent.ask("state").get("held"), "yes");
  EXPECT_EQ(parent.ask("release").word, "ok");
  const Line next = other.ask("acquire b 1000 3000");
  ASSERT_EQ(next.word, "granted") << next.get("text");
  EXPECT_GT(next.get("token"), held.get("token"));
}

TEST(ForkChildTest, CanBeMadeWhileOtherThreadsUseTheStore) {
  const TempFolder folder;
  ActorProcess parent(folder.url());
  const Line stormed = parent.ask("fork-storm 50", 30s);
  ASSERT_EQ(stormed.word, "stormed");
  EXPECT_EQ(stormed.number("failed"), 0);
  EXPECT_LT(stormed.number("slowest"), ns(2s)) << "fork() had to wait";
}

TEST(ExecTest, AStartedProgramInheritsNoDescriptor) {
  const TempFolder folder;
  ActorProcess parent(folder.url());
  ASSERT_EQ(parent.ask("acquire a 1000").word, "granted");
  EXPECT_EQ(parent.ask("exec-list").get("text"), "none");
}

}  // namespace
}  // namespace holdfast::faults
