#include "src/stores/memcached/sightings.h"

#include <gtest/gtest.h>

namespace holdfast::stores::memcached {
namespace {

using namespace std::chrono_literals;
using machine::Duration;
using machine::Instant;
using machine::LockImage;

Instant at(Duration time) { return Instant(time); }

LockImage lock_of(std::uint64_t id, std::uint64_t seq, Duration lease) {
  LockImage lock;
  lock.name = "orders";
  machine::TicketImage ticket;
  ticket.id = {1, id};
  ticket.seq = seq;
  ticket.lease = lease;
  lock.tickets.push_back(ticket);
  return lock;
}

Instant end_of(Sightings& sightings, LockImage lock, Instant arrival) {
  sightings.add_ends(lock, arrival);
  return lock.tickets.front().lease_end;
}

TEST(MemcachedSightingsTest, ALeaseEndsItsLengthAfterItWasFirstSeen) {
  Sightings sightings;
  EXPECT_EQ(end_of(sightings, lock_of(1, 0, 10s), at(100s)), at(110s));
  EXPECT_EQ(end_of(sightings, lock_of(1, 0, 10s), at(105s)), at(110s));
  EXPECT_EQ(end_of(sightings, lock_of(1, 0, 10s), at(500s)), at(110s));
}

TEST(MemcachedSightingsTest, ARenewalAndAnotherTicketAreSeenAnew) {
  Sightings sightings;
  EXPECT_EQ(end_of(sightings, lock_of(1, 0, 10s), at(100s)), at(110s));
  EXPECT_EQ(end_of(sightings, lock_of(1, 1, 10s), at(105s)), at(115s));
  EXPECT_EQ(end_of(sightings, lock_of(2, 1, 10s), at(106s)), at(116s));
  EXPECT_EQ(end_of(sightings, lock_of(1, 1, 10s), at(107s)), at(117s));  // It was away.
}

TEST(MemcachedSightingsTest, WhatTheClientWroteItselfHasTheEndsItGave) {
  Sightings sightings;
  LockImage own = lock_of(1, 3, 10s);
  own.tickets.front().lease_end = at(42s);
  sightings.note(own);
  EXPECT_EQ(end_of(sightings, lock_of(1, 3, 10s), at(40s)), at(42s));
  sightings.forget("orders");
  EXPECT_EQ(end_of(sightings, lock_of(1, 3, 10s), at(40s)), at(50s));
}

TEST(MemcachedSightingsTest, AnOlderDocumentIsGivenItsEndsAndForgetsNothing) {
  Sightings sightings;
  LockImage own = lock_of(1, 3, 10s);
  own.tickets.front().lease_end = at(42s);
  sightings.note(own);
  LockImage same = lock_of(1, 3, 10s);
  EXPECT_TRUE(sightings.recall_ends(same));
  EXPECT_EQ(same.tickets.front().lease_end, at(42s));
  LockImage older = lock_of(1, 2, 10s);
  EXPECT_FALSE(sightings.recall_ends(older));
  EXPECT_EQ(end_of(sightings, lock_of(1, 3, 10s), at(40s)), at(42s));
  sightings.forget("orders");
  EXPECT_FALSE(sightings.recall_ends(same));
}

TEST(MemcachedSightingsTest, LocksNotAskedAboutForLongAreForgottenAndOthersKept) {
  Sightings sightings;
  sightings.note(lock_of(1, 0, 10s));
  LockImage busy = lock_of(1, 0, 10s);
  busy.name = "busy";
  sightings.add_ends(busy, at(0s));
  LockImage other = lock_of(1, 0, 10s);
  for (int i = 0; i < 40'000; ++i) {
    other.name = "other/" + std::to_string(i);
    sightings.add_ends(other, at(1s));
    if (i % 1000 != 0) continue;
    sightings.add_ends(busy, at(2s));
    EXPECT_EQ(busy.tickets[0].lease_end, at(10s));
  }
  EXPECT_EQ(end_of(sightings, lock_of(1, 0, 10s), at(50s)), at(60s));
}

}  // namespace
}  // namespace holdfast::stores::memcached
