// Leases in a shard: what is journaled of them, when a renewal is answered, who is counted.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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

class ManyLeasesTest : public ::testing::Test {
 protected:
  // Seven leases that end at one instant, which has come; `ends_per_turn` is 2.
  ManyLeasesTest() : rig_({.ends_per_turn = 2}) {
    std::uint64_t id = 10;
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) rig_.ask(rig_.acquire(name, id++));
    rig_.ask(rig_.acquire("a", 99));
    rig_.commit();
    rig_.pass(ShardRig::kTtl - Axis::kPulse);
    rig_.told.clear();
    rig_.boot += Axis::kPulse;
  }
  // How many ended in the batches since the last call.
  std::ptrdiff_t ended() {
    rig_.commit();
    const auto all = std::exchange(rig_.told, {});
    return std::count(all.begin(), all.end(), machine::EffectKind::kExpired);
  }
  bool is_due() { return rig_.shard().next_tick() == rig_.boot; }

  ShardRig rig_;
};

TEST_F(ManyLeasesTest, SoManyEndInOneTurnAndTheRestInTheNextOnes) {
  // The waiter of the first lock ends with its holder: it must not be granted.
  for (const std::ptrdiff_t expected : {3, 2, 2}) {
    EXPECT_TRUE(is_due());
    rig_.shard().tick(rig_.boot);
    EXPECT_EQ(ended(), expected);
  }
  EXPECT_EQ(rig_.shard().next_tick(), std::nullopt);
  EXPECT_EQ(rig_.pushes.size(), 7U);
}

TEST_F(ManyLeasesTest, RequestsEndWhatTheTickHasLeft) {
  rig_.ask(rig_.acquire("x", 1));
  EXPECT_EQ(ended(), 3);
  rig_.ask(rig_.acquire("y", 2));
  EXPECT_EQ(ended(), 0);
  EXPECT_TRUE(is_due());
}

TEST_F(ManyLeasesTest, ALeaseThatIsOverIsNeverAnsweredAsHeld) {
  rig_.ask(rig_.acquire("x", 1));
  ASSERT_EQ(ended(), 3) << "all that others may end";
  const auto renewed = rig_.ask(machine::Renew{"d", {1, 13}, 1, ShardRig::kTtl, ShardRig::kTtl});
  const auto repeated = rig_.ask(rig_.acquire("f", 15));
  machine::Acquire other = rig_.acquire("e", 2);
  other.may_wait = false;
  const auto taken = rig_.ask(other);
  std::optional<LockSight> seen;
  rig_.shard().inspect(rig_.boot, "c", [&](Result<LockSight> sight) { seen = *std::move(sight); });
  EXPECT_EQ(ended(), 4);
  EXPECT_EQ((**renewed)->reply.outcome, Outcome::kGone);
  EXPECT_EQ((**repeated)->reply.lease_end - (**repeated)->at, ShardRig::kTtl) << "a new grant";
  EXPECT_EQ((**taken)->reply.outcome, Outcome::kHeld);
  EXPECT_FALSE(seen->lock && !seen->lock->tickets.empty());
}

TEST_F(ManyLeasesTest, SeveralLocksWhoseLeasesAreOverAreTakenTogether) {
  std::vector<Request> requests;
  for (const char* name : {"b", "d"}) {
    requests.push_back({.client = "c", .action = rig_.acquire(name, 2)});
  }
  std::optional<Service::AllOrNone> all;
  rig_.shard().submit_all(rig_.boot, requests,
                          [&](Result<Service::AllOrNone> done) { all = *std::move(done); });
  EXPECT_EQ(ended(), 4) << "two of other locks";
  ASSERT_EQ(all->granted.size(), 2U);
}

TEST_F(ManyLeasesTest, AListHasNoLeaseThatIsOver) {
  std::optional<std::vector<LockSight>> seen;
  rig_.shard().list(rig_.boot, "", "", 10, [&](Result<std::vector<LockSight>> done) {
    seen = *std::move(done);
  });
  EXPECT_EQ(ended(), 7);
  EXPECT_TRUE(seen->empty());
}

}  // namespace
}  // namespace holdfast::server
