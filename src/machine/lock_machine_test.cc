// Leases, hand-off, idempotence and the queue, rule by rule.
#include "src/machine/lock_machine.h"

#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

TEST(LockMachineTest, AFreeLockIsGrantedForTheWholeTtl) {
  Driver d;
  d.now = at(7);
  const Reply reply = d.acquire(1);
  EXPECT_EQ(reply.outcome, Outcome::kHeld);
  EXPECT_EQ(reply.token, token(1));
  EXPECT_EQ(reply.lease_end, at(107));
  EXPECT_EQ(reply.seq, 0U);
  EXPECT_EQ(reply.lease, Duration{100});
}

TEST(LockMachineTest, ReleaseGrantsTheOldestWaiterInTheSameStep) {
  Driver d;
  d.acquire(1);
  EXPECT_EQ(d.acquire(2).position, 0U);
  EXPECT_EQ(d.acquire(3).position, 1U);
  d.now = at(5);
  EXPECT_EQ(d.release(1).outcome, Outcome::kReleased);
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{2});
  EXPECT_EQ(d.holders(), Ids{2});
  EXPECT_EQ(d.waiters(), Ids{3});
}

}  // namespace
}  // namespace holdfast::machine
