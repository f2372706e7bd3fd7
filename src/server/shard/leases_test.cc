// Leases in a shard: what is journaled of them, when a renewal is answered, who is counted.
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "src/server/testing/shard_rig.h"

namespace holdfast::server {
namespace {

using machine::Outcome;
using std::chrono::seconds;
using testing::ShardRig;

class ShardLeasesTest : public ::testing::Test {
 protected:
  ShardRig::Slot renew(machine::Duration length, bool proven = false) {
    auto slot = std::make_shared<std::optional<Result<Answer>>>();
    Request request{.client = "c", .action = machine::Renew{"a", {1, 1}, ++seq_, length, length}};
    request.proven = proven;
    rig_.shard().submit(rig_.boot, request,
                        [slot](Result<Answer> answer) { slot->emplace(std::move(answer)); });
    return slot;
  }
  machine::Duration left() {
    const auto lock = rig_.shard().machine().inspect("a");
    return lock->tickets[0].lease_end - rig_.shard().machine().now();
  }

  ShardRig rig_;
  const machine::Duration ttl_ = ShardRig::kTtl;

 private:
  std::uint64_t seq_ = 0;
};

// Rule 33: the recovery gives the longer one of the ttl and the lease in the journal.
TEST_F(ShardLeasesTest, ALeaseThatTheJournalHasIsNotJournaledAgain) {
  rig_.hold("a", 1);
  EXPECT_FALSE(*renew(3 * ttl_));
  rig_.commit();
  const auto batches = rig_.disk.batches.size();
  for (const int times : {3, 2, 1, 3}) {
    rig_.pass(seconds(1));
    EXPECT_TRUE(*renew(times * ttl_)) << times;
  }
  rig_.commit();
  EXPECT_EQ(rig_.disk.batches.size(), batches);
  rig_.restart();
  EXPECT_GE(left(), 3 * ttl_);
}

TEST_F(ShardLeasesTest, AShorterLeaseInTheJournalCountsForLaterRenewals) {
  rig_.hold("a", 1);
  renew(3 * ttl_);
  rig_.commit();
  rig_.ask(machine::Keep{"a", {1, 1}, 2, seconds(1), {}});
  rig_.commit();
  renew(ttl_);  // 2 is the Keep's.
  EXPECT_FALSE(*renew(3 * ttl_));
  rig_.commit();
  rig_.restart();
  EXPECT_GE(left(), 3 * ttl_);
}

// Its caller has heard of a commit just now, which says that this server leads.
TEST_F(ShardLeasesTest, AProvenRenewalIsAnsweredAtOnceUntilTheDeadlineOfLeadership) {
  rig_.hold("a", 1);
  rig_.shard().confirm_renewals();
  rig_.shard().lead_until(rig_.boot + seconds(1));
  EXPECT_FALSE(*renew(ttl_));
  EXPECT_TRUE(*renew(ttl_, /*proven=*/true));
  EXPECT_FALSE(*renew(2 * ttl_, /*proven=*/true)) << "it has to be written";
  rig_.commit();
  rig_.pass(seconds(1));
  EXPECT_FALSE(*renew(ttl_, /*proven=*/true)) << "another server may lead";
}

TEST_F(ShardLeasesTest, HoldersAndWaitersAreCountedWhenTheyAreCommitted) {
  rig_.ask(rig_.acquire("a", 1));
  rig_.ask(rig_.acquire("a", 2));
  EXPECT_EQ(rig_.shard().holders(), 0U);
  EXPECT_EQ(rig_.shard().waiters(), 0U);
  rig_.commit();
  EXPECT_EQ(rig_.shard().holders(), 1U);
  EXPECT_EQ(rig_.shard().waiters(), 1U);
  rig_.ask(machine::Release{"a", {1, 1}, {}});
  EXPECT_EQ(rig_.shard().waiters(), 1U);
  rig_.commit();
  EXPECT_EQ(rig_.shard().holders(), 1U);
  EXPECT_EQ(rig_.shard().waiters(), 0U);
}

}  // namespace
}  // namespace holdfast::server
