#include "src/stores/memcached/alone.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/machine/lock_machine.h"

namespace holdfast::stores::memcached {
namespace {

using namespace std::chrono_literals;
using machine::Acquire;
using machine::Instant;
using machine::LockImage;
using machine::LockMachine;
using machine::Mode;
using machine::Outcome;

constexpr std::uint64_t kFloor = 1'700'000'000'000'000;
constexpr Instant kNow{9s};

Acquire plain() {
  auto owner = std::make_shared<machine::OwnerInfo>();
  owner->owner = "alice";
  return {.name = "orders", .id = {7, 1}, .ttl = 30s, .waiter_ttl = 5s, .owner = owner};
}

// The machine's reply and document.
std::pair<machine::Reply, LockImage> by_machine(const Acquire& acquire) {
  LockMachine machine(machine::Token{0, kFloor});
  machine::Effects effects;
  const auto reply = machine.apply({kNow, acquire}, effects);
  return {reply, machine.inspect(acquire.name).value_or(LockImage{})};
}

TEST(MemcachedAloneTest, AnAcquireIsAnsweredAndWrittenAsByTheMachine) {
  std::vector<Acquire> all(4, plain());
  all[1].may_wait = false;
  all[2].may_wait = false, all[2].waiter_ttl = {};
  all[3].max_waiters = 3, all[3].ttl = 24h, all[3].owner = nullptr;
  for (const Acquire& acquire : all) {
    LockImage lock;
    lock.name = acquire.name;
    const auto reply = take_alone(acquire, kNow, kFloor, lock);
    const auto [expected, image] = by_machine(acquire);
    ASSERT_EQ(expected.outcome, Outcome::kHeld);
    ASSERT_TRUE(reply);
    EXPECT_EQ(*reply, expected);
    EXPECT_EQ(lock, image);
  }
}

TEST(MemcachedAloneTest, OtherAcquiresAreTheMachines) {
  std::vector<Acquire> all(9, plain());
  all[0].mode = Mode::shared();
  all[1].mode = Mode::of_permits(1, 1);
  all[2].upgrade_of = {7, 9};
  all[3].name = "";
  all[4].id = {};
  all[5].ttl = {};
  all[6].waiter_ttl = {};
  all[7].ttl = machine::Duration::max();
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    LockImage lock;
    EXPECT_FALSE(take_alone(all[i], kNow, kFloor, lock)) << i;
    EXPECT_EQ(lock, LockImage{}) << i;
  }
  LockImage lock;
  EXPECT_FALSE(take_alone(all[8], kNow, UINT64_MAX, lock));
}

TEST(MemcachedAloneTest, AReleaseIsAnsweredAsByTheMachine) {
  LockMachine machine(machine::Token{0, kFloor});
  machine::Effects effects;
  machine.apply({kNow, plain()}, effects);
  Document held;
  held.image = *machine.inspect("orders");
  const auto reply = leave_alone(held, {7, 1}, kNow + 1s);
  ASSERT_TRUE(reply);
  EXPECT_EQ(*reply, machine.apply({kNow + 1s, machine::Release{"orders", {7, 1}, {}}}, effects));
  EXPECT_FALSE(machine.inspect("orders"));
}

TEST(MemcachedAloneTest, OtherReleasesAreTheMachines) {
  LockMachine machine(machine::Token{0, kFloor});
  machine::Effects effects;
  machine.apply({kNow, plain()}, effects);
  Document held;
  held.image = *machine.inspect("orders");
  EXPECT_FALSE(leave_alone(held, {7, 2}, kNow)) << "another one's";
  EXPECT_FALSE(leave_alone(held, {7, 1}, kNow + 30s)) << "the lease is over";
  std::vector<Document> all(5, held);
  all[0].keep = true;
  all[1].broken = Document::Broken{{0, 9}, nullptr};
  all[2].image.value = "stays";
  all[3].image.tickets.push_back(held.image.tickets.front());
  all[3].image.tickets.back().id = {7, 3};
  all[4].image.tickets.front().held = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_FALSE(leave_alone(all[i], {7, 1}, kNow)) << i;
  }
  EXPECT_FALSE(leave_alone(Document{}, {7, 1}, kNow));
}

}  // namespace
}  // namespace holdfast::stores::memcached
