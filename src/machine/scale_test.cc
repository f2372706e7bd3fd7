// Large numbers: results, not times (bench/machine_bench.cc has those). A quadratic algorithm would
// not end within the test's time. (Under the sanitizers they are smaller: those look for something
// else.)
#include <malloc.h>

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "src/machine/lock_machine.h"
#include "src/machine/testing/dice.h"

namespace holdfast::machine {
namespace {

#if defined(HOLDFAST_SANITIZED)
constexpr std::uint64_t kMany = 10'000;
#else
constexpr std::uint64_t kMany = 100'000;
#endif

constexpr Instant at(std::int64_t us) { return Instant{Duration{us}}; }

TEST(ScaleTest, ManyWaitersAreServedInOrder) {
  LockMachine machine(Token{});
  Effects effects;
  Acquire acquire{.name = "hot", .ttl = Duration{1'000'000}, .waiter_ttl = Duration{1'000'000}};
  for (std::uint64_t n = 1; n <= kMany; ++n) {
    acquire.id = {0, n};
    machine.apply({at(0), acquire}, effects);
  }
  for (std::uint64_t n = 1; n < kMany; ++n) {
    effects.clear();
    machine.apply({at(1), Release{.name = "hot", .id = {0, n}}}, effects);
    ASSERT_EQ(effects.size(), 2U);
    ASSERT_EQ(effects[1].kind, EffectKind::kGranted);
    ASSERT_EQ(effects[1].id.low, n + 1);
  }
}

TEST(ScaleTest, WaitersDieAllOverALongQueueAndTheRestIsServed) {
  constexpr std::uint64_t kWaiters = 20'000;
  testing::Dice dice(1);
  LockMachine machine(Token{});
  Effects effects;
  std::uint64_t living = 0;
  for (std::uint64_t n = 0; n <= kWaiters; ++n) {
    const bool dies = n > 0 && dice.one_in(2);
    if (n > 0 && !dies) ++living;
    Acquire acquire{.name = "hot", .id = {0, n + 1}, .ttl = Duration{1'000'000}};
    acquire.waiter_ttl =
        Duration{dies ? 100 + static_cast<std::int64_t>(dice.below(900)) : 1'000'000};
    machine.apply({at(0), acquire}, effects);
  }
  while (*machine.next_event() <= at(1000)) {
    machine.apply({*machine.next_event(), Tick{}}, effects);
  }
  machine.check_invariants();
  EXPECT_EQ(machine.inspect("hot")->tickets.size(), living + 1);
}

TEST(ScaleTest, ManyLeasesExpireInOneStepOrOneByOne) {
  for (const bool at_once : {true, false}) {
    testing::Dice dice(2);
    LockMachine machine(Token{});
    Effects effects;
    for (std::uint64_t n = 1; n <= kMany; ++n) {
      const std::string name = "lock/" + std::to_string(n);
      const Duration ttl{1 + static_cast<std::int64_t>(dice.below(1'000'000))};
      machine.apply({at(0), Acquire{.name = name, .id = {0, n}, .may_wait = false, .ttl = ttl}},
                    effects);
    }
    effects.clear();
    if (at_once) machine.apply({at(1'000'001), Tick{}}, effects);
    while (const auto next = machine.next_event()) machine.apply({*next, Tick{}}, effects);
    Instant last{};
    std::uint64_t expired = 0;
    for (const Effect& effect : effects) {
      if (effect.kind != EffectKind::kExpired) continue;
      ASSERT_GE(effect.lease_end, last) << "in order of their ends";
      last = effect.lease_end;
      ++expired;
    }
    EXPECT_EQ(expired, kMany);
    EXPECT_TRUE(machine.names("", 1).empty());
  }
}

TEST(ScaleTest, ManyReadersAndTheirRenewalsAreIndependent) {
  constexpr std::uint64_t kReaders = 20'000;
  LockMachine machine(Token{});
  Effects effects;
  for (std::uint64_t n = 1; n <= kReaders; ++n) {
    machine.apply({at(0), Acquire{.name = "hot",
                                  .id = {0, n},
                                  .mode = Mode::shared(),
                                  .ttl = Duration{1000},
                                  .waiter_ttl = Duration{1000}}},
                  effects);
  }
  machine.apply({at(0), Acquire{.name = "hot",
                                .id = {0, kReaders + 1},
                                .ttl = Duration{9000},
                                .waiter_ttl = Duration{9000}}},
                effects);
  for (std::uint64_t n = 2; n <= kReaders; n += 2) {
    const Renew renew{.name = "hot", .id = {0, n}, .seq = 1, .ttl = Duration{1000}};
    ASSERT_EQ(machine.apply({at(500), renew}, effects).lease_end, at(1500));
  }
  machine.apply({at(1000), Tick{}}, effects);
  EXPECT_EQ(machine.inspect("hot")->tickets.size(), kReaders / 2 + 1);
  machine.apply({at(1500), Tick{}}, effects);
  EXPECT_EQ(machine.inspect("hot")->tickets.size(), 1U);
  EXPECT_TRUE(machine.inspect("hot")->tickets[0].held);
}

// The bytes that malloc has given out, with those it adds to each piece.
double heap() {
  const auto now = ::mallinfo2();
  return static_cast<double>(now.uordblks + now.hblkhd);
}

double bytes_of_a_held_lock(std::uint64_t locks) {
  const auto owner = std::make_shared<const OwnerInfo>();
  Effects effects;
  const double before = heap();
  LockMachine machine(Token{});
  for (std::uint64_t n = 1; n <= locks; ++n) {
    const std::string name = "lock/" + std::to_string(n);
    Acquire acquire{.name = name, .id = {n * 0x9E3779B97F4A7C15ULL, n}, .owner = owner};
    acquire.ttl = acquire.waiter_ttl = std::chrono::seconds(30);
    effects.clear();
    machine.apply({at(static_cast<std::int64_t>(n)), acquire}, effects);
    EXPECT_EQ(effects[0].kind, EffectKind::kGranted);
  }
  return (heap() - before) / static_cast<double>(locks);
}

// A name of at most 15 bytes, and an owner that its locks share. The figures are the same in each
// run, because nothing else asks for memory.
TEST(ScaleTest, AHeldLockTakes250Bytes) {
#if defined(HOLDFAST_SANITIZED)
  GTEST_SKIP() << "SKIPPED: the sanitizer's own allocator tells nothing";
#endif
  const double at_most = bytes_of_a_held_lock(1'000'000);
  EXPECT_LE(at_most, 250);
  EXPECT_GT(at_most, 200) << "the allocator told nothing";
  EXPECT_LE(bytes_of_a_held_lock(100'000), 255);
  EXPECT_LE(bytes_of_a_held_lock(10'000), 265);
  // The index of names has just doubled: it is as empty as it can be.
  EXPECT_LE(bytes_of_a_held_lock(78'644), 260);
}

}  // namespace
}  // namespace holdfast::machine
