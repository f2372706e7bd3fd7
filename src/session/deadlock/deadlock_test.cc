#include "src/session/deadlock/deadlock.h"

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include <gtest/gtest.h>

namespace holdfast::session {
namespace {

std::string owner(char name) { return std::string(1, name).append("#").append(32, name); }

using Told = std::set<std::pair<std::string, std::string>>;

// The owner that is told of a deadlock.
Told told_of(const std::vector<LockInfo>& locks) {
  Told told;
  for (const LockInfo& lock : locks) {
    for (const WaiterInfo& waiter : lock.waiters) {
      if (find_deadlock(locks, waiter.who.owner, lock.name)) {
        told.emplace(waiter.who.owner, lock.name);
      }
    }
  }
  return told;
}

// Writes a reading: who holds and who waits, in the order of the waits' age.
class Reading {
 public:
  Reading& lock(const std::string& name) {
    locks_.emplace_back();
    locks_.back().name = name;
    return *this;
  }
  Reading& permits(const std::string& name, std::uint32_t capacity) {
    lock(name);
    locks_.back().permits = true;
    locks_.back().capacity = capacity;
    return *this;
  }
  Reading& held_by(const std::string& who, Mode mode = Mode::exclusive()) {
    HolderInfo holder;
    holder.who.owner = who;
    holder.mode = mode;
    holder.token = {0, ++token_};
    locks_.back().holders.push_back(std::move(holder));
    return *this;
  }
  Reading& waits(const std::string& who, Mode mode = Mode::exclusive(), int since = -1) {
    WaiterInfo waiter;
    waiter.who.owner = who;
    waiter.mode = mode;
    const int at = since < 0 ? ++age_ : since;
    waiter.who.since = std::chrono::system_clock::time_point(std::chrono::milliseconds(at));
    locks_.back().waiters.push_back(std::move(waiter));
    return *this;
  }
  const std::vector<LockInfo>& locks() const { return locks_; }
  Told told() const { return told_of(locks_); }

 private:
  std::vector<LockInfo> locks_;
  std::uint64_t token_ = 0;
  int age_ = 0;
};

const std::string kA = owner('a');
const std::string kB = owner('b');
const std::string kC = owner('c');

TEST(DeadlockTest, AnOwnersTextIsKnownByItsDigits) {
  EXPECT_TRUE(is_named_owner(kA));
  EXPECT_TRUE(is_named_owner("order #42#" + std::string(32, '0')));
  for (const std::string& text :
       {std::string(), std::string("host/42/0123456789ab"), "#" + std::string(32, '0'),
        "a#" + std::string(31, '0'), "a#" + std::string(32, 'G'), "a-" + std::string(32, '0')}) {
    EXPECT_FALSE(is_named_owner(text)) << text;
  }
}

TEST(DeadlockTest, TwoWhoWaitForEachOtherAreFoundAndTheYoungerWaitIsTold) {
  Reading reading;
  reading.lock("x").held_by(kA).waits(kB).lock("y").held_by(kB).waits(kA);
  EXPECT_EQ(reading.told(), (Told{{kA, "y"}}));
  const auto found = find_deadlock(reading.locks(), kA, "y");
  EXPECT_EQ(found->cycle,
            "a#aaaaaaaa waits for 'y', which b#bbbbbbbb holds; b#bbbbbbbb waits for 'x', which "
            "a#aaaaaaaa holds");
}

TEST(DeadlockTest, OfTwoAsYoungTheGreaterIdIsTold) {
  Reading reading;
  reading.lock("x").held_by(kA).waits(kB, Mode::exclusive(), 7);
  reading.lock("y").held_by(kB).waits(kA, Mode::exclusive(), 7);
  EXPECT_EQ(reading.told(), (Told{{kB, "x"}}));
}

TEST(DeadlockTest, ThreeInACircleAreFoundAndOneIsTold) {
  Reading reading;
  reading.lock("x").held_by(kA).waits(kC);
  reading.lock("y").held_by(kB).waits(kA);
  reading.lock("z").held_by(kC).waits(kB);
  EXPECT_EQ(reading.told(), (Told{{kB, "z"}}));
}

TEST(DeadlockTest, WithoutANameThereIsNoEdge) {
  Reading reading;
  reading.lock("x").held_by("host/1/aa").waits(kB).lock("y").held_by(kB).waits("host/1/aa");
  EXPECT_TRUE(reading.told().empty());
}

TEST(DeadlockTest, WhoWaitsBehindACircleIsNotTold) {
  Reading reading;
  reading.lock("x").held_by(kA).waits(kB).lock("y").held_by(kB).waits(kA).waits(kC);
  EXPECT_EQ(stuck_owners(reading.locks()).size(), 3U);
  EXPECT_EQ(reading.told(), (Told{{kA, "y"}}));
}

TEST(DeadlockTest, OneWhoCanGoOnUntiesTheRest) {
  Reading reading;
  reading.lock("x").held_by(kA).waits(kB).lock("y").held_by(kB).waits(kA);
  reading.lock("free soon").held_by("host/1/aa").waits(kA);  // Another thread of A.
  EXPECT_TRUE(reading.told().empty());
}

TEST(DeadlockTest, ReadersStandInNoReadersWayButAWriterBeforeThemDoes) {
  Reading reading;
  reading.lock("x").held_by(kA, Mode::shared()).waits(kB, Mode::shared());
  reading.lock("y").held_by(kB).waits(kA);
  EXPECT_TRUE(reading.told().empty());

  Reading behind;
  behind.lock("x").held_by(kA, Mode::shared()).waits(kC).waits(kB, Mode::shared());
  behind.lock("y").held_by(kB).waits(kA);
  EXPECT_EQ(behind.told(), (Told{{kA, "y"}}));
}

TEST(DeadlockTest, WhoWaitsForItselfIsToldUnlessItMayUpgrade) {
  Reading itself;
  itself.lock("x").held_by(kA).waits(kA);
  EXPECT_EQ(itself.told(), (Told{{kA, "x"}}));
  Reading upgrade;
  upgrade.lock("x").held_by(kA, Mode::shared()).held_by("host/1/aa", Mode::shared()).waits(kA);
  EXPECT_TRUE(upgrade.told().empty());
}

TEST(DeadlockTest, PermitsAreADeadlockOnlyWhenAllWhoHoldThemAreStuck) {
  const Mode one = Mode::permits(1, 2);
  Reading both;
  both.permits("p", 2).held_by(kA, one).held_by(kB, one).waits(kA, one).waits(kB, one);
  EXPECT_EQ(both.told(), (Told{{kB, "p"}}));
  Reading other;
  other.permits("p", 2).held_by(kA, one).held_by("host/1/aa", one).waits(kA, one);
  EXPECT_TRUE(other.told().empty());
  Reading mixed;
  mixed.permits("p", 2).held_by(kA, one).held_by(kB, one).waits(kC, one);
  mixed.lock("x").held_by(kC).waits(kA);
  EXPECT_TRUE(mixed.told().empty());  // B goes on.
  mixed.lock("y").held_by(kA).waits(kB);
  EXPECT_EQ(mixed.told().size(), 1U);
}

TEST(DeadlockTest, AnotherGrantOrAnotherWaitIsAnotherEdge) {
  const auto edges = [](int since, int grants_before) {
    Reading reading;
    reading.lock("spare");
    for (int i = 0; i < grants_before; ++i) reading.held_by("host/1/aa", Mode::shared());
    reading.lock("x").held_by(kA).waits(kB, Mode::exclusive(), since);
    reading.lock("y").held_by(kB).waits(kA, Mode::exclusive(), 100);
    return find_deadlock(reading.locks(), kA, "y")->edges;
  };
  EXPECT_EQ(edges(1, 0), edges(1, 0));
  EXPECT_NE(edges(1, 0), edges(2, 0));
  EXPECT_NE(edges(1, 0), edges(1, 1));
}

// --- Against a search through all sets of owners.

bool held_up(const LockInfo& lock, std::size_t place, const std::set<std::string>& set) {
  const WaiterInfo& waiter = lock.waiters[place];
  const auto readers = [](Mode a, Mode b) { return a == Mode::shared() && b == Mode::shared(); };
  for (std::size_t i = 0; i < place; ++i) {
    if (!lock.permits && readers(lock.waiters[i].mode, waiter.mode)) continue;
    if (set.contains(lock.waiters[i].who.owner)) return true;
  }
  std::size_t in_set = 0;
  for (const HolderInfo& holder : lock.holders) {
    if (!set.contains(holder.who.owner)) continue;
    if (lock.permits) {
      ++in_set;
      continue;
    }
    if (readers(holder.mode, waiter.mode)) continue;
    if (holder.mode == Mode::shared() && holder.who.owner == waiter.who.owner) continue;
    return true;
  }
  return lock.permits && in_set > 0 && in_set == lock.holders.size();
}

// Each of them waits, and each of its waits is held up by them.
bool holds_itself_up(const std::vector<LockInfo>& locks, const std::set<std::string>& set) {
  std::set<std::string> waiting;
  for (const LockInfo& lock : locks) {
    for (std::size_t i = 0; i < lock.waiters.size(); ++i) {
      if (!set.contains(lock.waiters[i].who.owner)) continue;
      waiting.insert(lock.waiters[i].who.owner);
      if (!held_up(lock, i, set)) return false;
    }
  }
  return waiting == set;
}

std::set<std::string> stuck_by_search(const std::vector<LockInfo>& locks) {
  std::set<std::string> all;
  for (unsigned bits = 1; bits < 32; ++bits) {
    std::set<std::string> set;
    for (unsigned i = 0; i < 5; ++i) {
      if ((bits & (1U << i)) != 0) set.insert(owner(static_cast<char>('a' + i)));
    }
    if (holds_itself_up(locks, set)) all.insert(set.begin(), set.end());
  }
  return all;
}

Reading random_reading(std::mt19937_64& dice) {
  Reading reading;
  const auto below = [&](std::uint64_t bound) { return dice() % bound; };
  const auto someone = [&] {
    return below(8) == 0 ? std::string("host/1/aa") : owner(static_cast<char>('a' + below(5)));
  };
  const auto lock_count = 1 + below(4);
  for (std::uint64_t l = 0; l < lock_count; ++l) {
    const std::string name(1, static_cast<char>('x' + l));
    const bool permits = below(3) == 0;
    const bool shared = below(2) == 0;
    permits ? reading.permits(name, 3) : reading.lock(name);
    const auto mode = [&](bool may_share) {
      if (permits) return Mode::permits(1, 3);
      return may_share && below(2) == 0 ? Mode::shared() : Mode::exclusive();
    };
    const auto holders = permits ? below(4) : shared ? below(3) : below(2);
    for (std::uint64_t i = 0; i < holders; ++i) {
      reading.held_by(someone(), permits  ? mode(true)
                                 : shared ? Mode::shared()
                                          : Mode::exclusive());
    }
    for (auto i = below(4); i > 0; --i) {
      reading.waits(someone(), mode(true), static_cast<int>(below(50)));
    }
  }
  return reading;
}

#if defined(HOLDFAST_SANITIZED)
constexpr int kRounds = 2'000;
#else
constexpr int kRounds = 20'000;
#endif

TEST(DeadlockTest, WhoIsStuckIsWhatASearchFinds) {
  std::mt19937_64 dice(20'261'121);
  int stuck_ones = 0;
  int told_ones = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Reading reading = random_reading(dice);
    const auto stuck = stuck_owners(reading.locks());
    ASSERT_EQ(stuck, stuck_by_search(reading.locks())) << "round " << round;
    stuck_ones += stuck.empty() ? 0 : 1;
    const Told told = reading.told();
    told_ones += told.empty() ? 0 : 1;
    for (const auto& [who, lock] : told) ASSERT_TRUE(stuck.contains(who)) << "round " << round;
    // Where somebody is stuck there is a circle, and somebody in it gives up.
    ASSERT_EQ(told.empty(), stuck.empty()) << "round " << round;
  }
  EXPECT_GT(stuck_ones, kRounds / 40);
  EXPECT_GT(told_ones, kRounds / 40);
}

// Whoever is told gives up its wait; then nobody is stuck in that circle, and in the end nobody is.
TEST(DeadlockTest, GivingUpUntiesEverything) {
  std::mt19937_64 dice(7);
  for (int round = 0; round < kRounds / 4; ++round) {
    const Reading reading = random_reading(dice);
    std::vector<LockInfo> locks = reading.locks();
    int steps = 0;
    while (!stuck_owners(locks).empty()) {
      ASSERT_LT(++steps, 20) << "round " << round;
      const Told told = told_of(locks);
      ASSERT_FALSE(told.empty()) << "round " << round;
      for (LockInfo& lock : locks) {
        std::erase_if(lock.waiters, [&](const WaiterInfo& waiter) {
          return told.contains({waiter.who.owner, lock.name});
        });
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::session
