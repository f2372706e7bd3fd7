// To plain data and back; and that nothing inconsistent is believed.
#include "src/machine/image.h"

#include <functional>

#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

// A lock with something of everything: holder, upgrade, waiters, tombstone, value.
Driver rich() {
  Driver d;
  d.tombstone = Duration{900};
  d.ttl = Duration{1000};
  d.waiter_ttl = Duration{500};
  d.acquire(1, Mode::shared());
  d.upgrade(1, 2);
  d.acquire(3, Mode::shared());
  d.acquire(4);
  d.cancel(9);
  d.apply(SetValue{.name = d.name, .id = id(1), .value = "v"});
  d.name = "semaphore";
  d.acquire(5, Mode::of_permits(2, 3));
  d.acquire(6, Mode::of_permits(1, 3));
  d.resize(7, 2);
  d.name = "orders/42";
  return d;
}

TEST(ImageTest, ASnapshotTellsEverythingInOrder) {
  Driver d = rich();
  const MachineImage image = d.machine.snapshot();
  EXPECT_EQ(image.format, 1U);
  ASSERT_EQ(image.locks.size(), 2U);
  const LockImage& lock = image.locks[0];
  EXPECT_EQ(lock.name, "orders/42");
  EXPECT_EQ(lock.last_token, token(2));
  EXPECT_EQ(lock.next_order, 5U);
  EXPECT_EQ(lock.value, "v");
  ASSERT_EQ(lock.tickets.size(), 4U);
  EXPECT_EQ(lock.tickets[1].upgrade_of, id(1));
  EXPECT_EQ(lock.tickets[1].token, token(2));
  EXPECT_FALSE(lock.tickets[2].held);
  EXPECT_EQ(lock.tombstones, (std::vector<TombstoneImage>{{id(9), at(900)}}));
  EXPECT_EQ(image.locks[1].kind, ModeKind::kPermits);
  EXPECT_EQ(image.locks[1].capacity, 3U);
  EXPECT_TRUE(image.locks[1].tickets[2].system);
}

TEST(ImageTest, ARestoredMachineIsTheSameAndGoesOnTheSameWay) {
  Driver d = rich();
  auto restored = LockMachine::restore(d.machine.snapshot());
  ASSERT_TRUE(restored);
  restored->check_invariants();
  EXPECT_EQ(restored->snapshot(), d.machine.snapshot());
  EXPECT_EQ(restored->next_event(), d.machine.next_event());
  Driver other;
  other.machine = std::move(*restored);
  other.tombstone = d.tombstone;
  EXPECT_EQ(other.release(1), d.release(1));
  EXPECT_EQ(other.did(EffectKind::kGranted), d.did(EffectKind::kGranted));
  EXPECT_EQ(other.holders(), Ids{3});
  EXPECT_EQ(other.machine.snapshot(), d.machine.snapshot());
}

TEST(ImageTest, AdmissionsLeftOverAreMadeAfterARestore) {
  Driver d(Limits{.admissions_per_step = 1});
  d.acquire(1);
  d.acquire(2, Mode::shared());
  d.acquire(3, Mode::shared());
  d.release(1);
  auto restored = LockMachine::restore(d.machine.snapshot());
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->next_event(), d.now);
  d.machine = std::move(*restored);
  d.apply(Tick{});
  EXPECT_EQ(d.holders(), (Ids{2, 3}));
}

TEST(ImageTest, ALoadedLockWhoseLeasesAreOverIsCleanedByTheNextCommand) {
  Driver source;
  source.acquire(1);
  source.waiter_ttl = Duration{300};
  source.acquire(2);
  Driver d({}, token(7));
  d.tick(at(200));
  ASSERT_TRUE(d.machine.restore_lock(*source.machine.inspect(source.name)));
  EXPECT_EQ(d.machine.next_event(), at(200)) << "never before now";
  EXPECT_EQ(d.try_acquire(3).outcome, Outcome::kBusy);
  EXPECT_EQ(d.did(EffectKind::kExpired), Ids{1});
  EXPECT_EQ(d.effect(EffectKind::kGranted).token, token(8));
}

TEST(ImageTest, AnIdleLockIsLoadedAndItsTokenCounts) {
  Driver d;
  LockImage idle;
  idle.name = d.name;
  idle.last_token = token(41);
  ASSERT_TRUE(d.machine.restore_lock(idle));
  EXPECT_EQ(d.acquire(1).token, token(42));
}

TEST(ImageTest, ALockIsLoadedOnce) {
  Driver d;
  d.acquire(1);
  const LockImage image = *d.machine.inspect(d.name);
  EXPECT_FALSE(d.machine.restore_lock(image));
  EXPECT_EQ(*d.machine.inspect(d.name), image);
}

TEST(ImageTest, SeveralLocksAreLoadedUntilOneIsRefused) {
  const Driver source = rich();
  const LockImage first = source.machine.snapshot().locks[0];
  std::vector<LockImage> images(20, first);
  for (std::size_t at = 0; at < images.size(); ++at) images[at].name += std::to_string(at);
  images[15].name = images[3].name;
  const std::vector<LockImage> before = images;
  LockMachine machine(source.machine.floor());
  machine.reserve(3);
  EXPECT_EQ(machine.restore_locks(images), 15U);
  EXPECT_EQ(machine.names("", 99).size(), 15U);
  for (std::size_t at = 0; at < 15; ++at) EXPECT_EQ(machine.inspect(before[at].name), before[at]);
  EXPECT_EQ(images[15], before[15]);
  machine.check_invariants();
}

using Spoil = std::function<void(LockImage&)>;

class SpoiledImageTest : public ::testing::TestWithParam<std::pair<const char*, Spoil>> {};

TEST_P(SpoiledImageTest, IsRefusedAndNothingChanges) {
  Driver d = rich();
  MachineImage image = d.machine.snapshot();
  LockImage lock = image.locks[0];
  GetParam().second(lock);
  Driver fresh;
  EXPECT_FALSE(fresh.machine.restore_lock(lock));
  EXPECT_TRUE(fresh.machine.names("", 9).empty());
  image.locks[0] = lock;
  EXPECT_FALSE(LockMachine::restore(image));
}

INSTANTIATE_TEST_SUITE_P(
    Lock, SpoiledImageTest,
    ::testing::Values(
        std::pair{"NoName", Spoil([](LockImage& l) { l.name.clear(); })},
        std::pair{"NoCapacity", Spoil([](LockImage& l) { l.capacity = 0; })},
        std::pair{"CapacityOfAMutex", Spoil([](LockImage& l) { l.capacity = 2; })},
        std::pair{"OtherKind", Spoil([](LockImage& l) { l.kind = ModeKind::kPermits; })},
        std::pair{"SharedKind", Spoil([](LockImage& l) { l.kind = ModeKind::kShared; })},
        std::pair{"UnknownKind", Spoil([](LockImage& l) { l.kind = ModeKind{9}; })},
        std::pair{"UnknownMode", Spoil([](LockImage& l) { l.tickets[3].mode.kind = ModeKind{9}; })},
        std::pair{"LaterEpoch", Spoil([](LockImage& l) { l.last_token.epoch = 1; })},
        std::pair{"TokenAboveTheLast", Spoil([](LockImage& l) { l.last_token = token(1); })},
        std::pair{"HolderWithoutToken", Spoil([](LockImage& l) { l.tickets[0].token = {}; })},
        std::pair{"WaiterWithToken", Spoil([](LockImage& l) { l.tickets[2].token = token(1); })},
        std::pair{"EqualTokens", Spoil([](LockImage& l) { l.tickets[1].token = token(1); })},
        std::pair{"NextOrder", Spoil([](LockImage& l) { l.next_order = 4; })},
        std::pair{"LastOrder", Spoil([](LockImage& l) { l.next_order = UINT64_MAX; })},
        std::pair{"Unordered", Spoil([](LockImage& l) { l.tickets[1].order = 1; })},
        std::pair{"OrderZero", Spoil([](LockImage& l) { l.tickets[0].order = 0; })},
        std::pair{"NoId", Spoil([](LockImage& l) { l.tickets[3].id = {}; })},
        std::pair{"EqualIds", Spoil([](LockImage& l) { l.tickets[3].id = id(3); })},
        std::pair{"BuriedTicket", Spoil([](LockImage& l) { l.tombstones[0].id = id(3); })},
        std::pair{"NamelessTombstone", Spoil([](LockImage& l) { l.tombstones[0].id = {}; })},
        std::pair{"TwoHolders", Spoil([](LockImage& l) {
                    l.tickets[2].held = true;
                    l.tickets[2].token = l.last_token = token(3);
                  })},
        std::pair{"UpgradeOfNobody", Spoil([](LockImage& l) { l.tickets[1].upgrade_of = id(8); })},
        std::pair{"UpgradeOfAWaiter", Spoil([](LockImage& l) { l.tickets[3].upgrade_of = id(3); })},
        std::pair{"TwoUpgrades", Spoil([](LockImage& l) { l.tickets[3].upgrade_of = id(1); })},
        std::pair{"SharedUpgrade", Spoil([](LockImage& l) { l.tickets[1].mode = Mode::shared(); })},
        std::pair{"System", Spoil([](LockImage& l) { l.tickets[3].system = true; })},
        std::pair{"Permits", Spoil([](LockImage& l) { l.tickets[3].mode.permits = 2; })},
        std::pair{"NoPermits", Spoil([](LockImage& l) { l.tickets[3].mode.permits = 0; })}),
    [](const auto& spoiled) { return std::string(spoiled.param.first); });

TEST(ImageTest, TooManyPermitsAreRefused) {
  Driver d = rich();
  LockImage lock = *d.machine.inspect("semaphore");
  lock.capacity = 2;
  for (TicketImage& ticket : lock.tickets) ticket.mode.capacity = 2;
  EXPECT_FALSE(Driver().machine.restore_lock(lock));
}

TEST(ImageTest, AHeldOrSecondShrinkIsRefused) {
  Driver d = rich();
  LockImage held = *d.machine.inspect("semaphore");
  held.tickets[0].system = true;
  EXPECT_FALSE(Driver().machine.restore_lock(held));
  LockImage two = *d.machine.inspect("semaphore");
  two.tickets.push_back(two.tickets[2]);
  two.tickets[3].id = id(77);
  two.tickets[3].order = two.next_order++;
  EXPECT_FALSE(Driver().machine.restore_lock(two));
  two.tickets[3].system = false;
  EXPECT_TRUE(Driver().machine.restore_lock(two));
}

TEST(ImageTest, AnotherFormatOrADoubleNameIsRefused) {
  MachineImage image = rich().machine.snapshot();
  image.format = 2;
  EXPECT_FALSE(LockMachine::restore(image));
  image.format = 1;
  image.locks.push_back(image.locks[0]);
  EXPECT_FALSE(LockMachine::restore(image));
}

}  // namespace
}  // namespace holdfast::machine
