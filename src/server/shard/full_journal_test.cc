// A shard whose journal is full, or may be another server's by now: what it answers.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/server/testing/shard_rig.h"

namespace holdfast::server {
namespace {

using std::chrono::seconds;
using testing::ShardRig;

class FullJournalTest : public ::testing::Test {
 protected:
  // The answers of the reads that were asked for; nullopt: not yet.
  using Told = std::shared_ptr<std::optional<std::string>>;

  Told inspect(const std::string& name) {
    auto told = std::make_shared<std::optional<std::string>>();
    rig_.shard().inspect(rig_.boot, name, keep_in<LockSight>(told));
    return told;
  }
  Told list() {
    auto told = std::make_shared<std::optional<std::string>>();
    rig_.shard().list(rig_.boot, "a", "", 10, keep_in<std::vector<LockSight>>(told));
    return told;
  }
  Told kept() {
    auto told = std::make_shared<std::optional<std::string>>();
    rig_.shard().kept(rig_.boot, "key", keep_in<std::optional<KeptText>>(told));
    return told;
  }
  // A batch that finds no room is under way.
  void fill() {
    rig_.ask(rig_.acquire("stuck", 99));
    ASSERT_TRUE(rig_.begin());
    rig_.shard().set_full(true);
  }
  std::pair<Told, Told> read_before_and_after_a_proof_begins() {
    rig_.hold("a", 1);
    rig_.shard().confirm_renewals();
    fill();
    const Told before = inspect("a");
    EXPECT_TRUE(rig_.shard().take_proof());
    return {before, inspect("a")};
  }

  ShardRig rig_;

 private:
  template <typename T>
  static Done<T> keep_in(const Told& told) {
    return [told](const Result<T>& answer) {
      told->emplace(answer ? "told" : answer.error().message());
    };
  }
};

bool is_told(const std::optional<std::string>& told) { return told == "told"; }
bool is_unproven(const std::optional<std::string>& told) {
  return told && told->find("not sure that this server still leads") != std::string::npos;
}

TEST_F(FullJournalTest, AReadIsRefusedWhenAnotherServerMayLead) {
  rig_.hold("a", 1);
  rig_.shard().lead_until(rig_.boot + seconds(1));
  rig_.shard().set_full(true);
  for (const Told& read : {inspect("a"), list(), kept()}) EXPECT_TRUE(is_told(*read));
  rig_.pass(seconds(1));
  for (const Told& read : {inspect("a"), list(), kept()}) EXPECT_TRUE(is_unproven(*read));
}

TEST_F(FullJournalTest, AReadIsRefusedWhileTimeIsInDoubt) {
  rig_.hold("a", 1);
  rig_.shard().set_full(true);
  rig_.shard().doubt_time();
  for (const Told& read : {inspect("a"), list(), kept()}) EXPECT_TRUE(is_unproven(*read));
}

// Rule 57: a paused virtual machine whose clock stood still passes no deadline.
TEST_F(FullJournalTest, WhereServersShareItAReadWaitsForAProofThatBeginsLater) {
  rig_.hold("a", 1);
  rig_.shard().confirm_renewals();
  fill();
  const Told first = inspect("a");
  EXPECT_FALSE(*first);
  EXPECT_TRUE(is_told(*list())) << "it judges no token, and the deadline has not passed";
  ASSERT_TRUE(rig_.shard().take_proof());
  const Told second = kept();  // The proof began before it was read.
  EXPECT_FALSE(rig_.shard().take_proof()) << "one at a time";
  rig_.shard().proved(true);
  EXPECT_TRUE(is_told(*first));
  EXPECT_FALSE(*second);
  ASSERT_TRUE(rig_.shard().take_proof());
  rig_.shard().proved(false);
  EXPECT_TRUE(is_unproven(*second));
  EXPECT_FALSE(rig_.shard().take_proof()) << "nobody waits";
}

TEST_F(FullJournalTest, WhereServersShareItAListAfterTheDeadlineWaitsForAProof) {
  rig_.hold("a", 1);
  rig_.shard().confirm_renewals();
  rig_.shard().lead_until(rig_.boot + seconds(1));
  fill();
  rig_.pass(seconds(1));
  const Told read = list();
  EXPECT_FALSE(*read);
  ASSERT_TRUE(rig_.shard().take_proof());
  rig_.shard().proved(true);
  EXPECT_TRUE(is_told(*read));
}

// The try that found room may have begun before the read.
TEST_F(FullJournalTest, AReadThatHasNoProofYetWaitsForTheNextCommitWhenThereIsRoom) {
  const auto [first, second] = read_before_and_after_a_proof_begins();
  rig_.shard().set_full(false);
  rig_.finish();
  EXPECT_FALSE(*first);
  EXPECT_FALSE(*second);
  ASSERT_TRUE(rig_.begin());
  rig_.finish();
  EXPECT_TRUE(is_told(*first));
  EXPECT_TRUE(is_told(*second));
}

TEST_F(FullJournalTest, AReadThatWaitsForAProofFailsWithTheJournal) {
  const auto [first, second] = read_before_and_after_a_proof_begins();
  rig_.shard().fail(Error(Errc::kUnavailable, "another server leads"), /*unknown=*/true);
  EXPECT_EQ(*first, "another server leads");
  EXPECT_EQ(*second, "another server leads");
}

}  // namespace
}  // namespace holdfast::server
