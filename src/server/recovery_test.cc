#include "src/server/recovery.h"

#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/fnv.h"
#include "src/machine/lock_machine.h"
#include "src/machine/testing/dice.h"
#include "src/server/compactor.h"
#include "src/server/snapshot_reader.h"
#include "src/server/testing/sim_journal.h"

namespace holdfast::server {
namespace {

using machine::Instant;
using std::chrono::seconds;
using testing::SimDisk;
using testing::SimJournal;

constexpr std::uint64_t kBatches = 400;

machine::Action random_action(machine::testing::Dice& dice, const std::string& name,
                              std::uint64_t number) {
  const machine::AcquisitionId id{1, 1 + dice.below(12)};
  switch (dice.below(8)) {
    case 0:
    case 1:
    case 2: {
      machine::Acquire acquire{name, id};
      if (dice.one_in(2)) acquire.mode = machine::Mode::shared();
      if (name == "c") acquire.mode = machine::Mode::of_permits(1, 3);
      acquire.ttl = acquire.waiter_ttl = seconds(30);
      auto owner = std::make_shared<machine::OwnerInfo>();
      owner->owner = "owner " + std::to_string(number);
      acquire.owner = std::move(owner);
      return acquire;
    }
    case 3: return machine::Release{name, id, seconds(dice.below(20))};
    case 4: return machine::Downgrade{name, id, {}};
    case 5: return machine::SetValue{name, id, "v" + std::to_string(number)};
    case 6: return machine::Resize{name, id, static_cast<std::uint32_t>(1 + dice.below(4))};
    default: return machine::Keep{name, id, number, seconds(20), {}};
  }
}

// The journal of a machine that gets one command at random for each batch. After one of them all is
// put into a snapshot, in chunks of a lock or two.
class RecoveryTest : public ::testing::Test {
 protected:
  // `locks`: and as many that nothing happens to any more.
  void run(std::uint64_t seed, std::uint64_t snapshot_after, std::uint64_t locks) {
    machine::testing::Dice dice(seed);
    disk_ = {};
    disk_.room = 2 * kBatches;
    machine_ = machine::LockMachine({0, 100});
    SimJournal journal(disk_);
    ASSERT_TRUE(journal.open());
    for (std::uint64_t number = 1; number <= kBatches; ++number) {
      now_ += std::chrono::milliseconds(dice.below(300));
      RecordWriter writer({RecordKind::kBatch, number, 0});
      if (number == 1) {
        writer.add_floor({0, 100});
        for (std::uint64_t lock = 0; lock < locks; ++lock) {
          const std::string name = "still-" + std::to_string(lock);
          machine::Acquire acquire{name, {2, 1 + lock}};
          acquire.ttl = acquire.waiter_ttl = std::chrono::hours(1);
          apply(acquire, writer);
        }
      } else {
        const std::string name(1, static_cast<char>('a' + dice.below(9)));
        apply(random_action(dice, name, number), writer);
      }
      ASSERT_EQ(journal.commit(number, writer.finish(now_)), Commit::kCommitted);
      if (number == snapshot_after) compact(journal, number);
    }
  }

  void apply(const machine::Action& action, RecordWriter& writer) {
    machine::Effects effects;
    machine_.apply({now_, action}, effects);
    for (const machine::Effect& effect : effects) writer.add_effect(effect);
  }

  static void compact(SimJournal& journal, std::uint64_t number) {
    Compactor compactor(journal, {.bytes = 100, .chunk = 100}, *journal.head(), number);
    compactor.note_commit(number, 1'000);
    while (compactor.busy()) ASSERT_EQ(compactor.step(), Commit::kCommitted);
  }

  Result<Recovered> recover() {
    SimJournal journal(disk_);
    return server::recover(journal, {}, 0);
  }

  // The head's checksum is that of the present chunks.
  void sign_snapshot() {
    disk_.head.checksum = base::kFnvStart;
    for (const auto& [place, bytes] : disk_.chunks) {
      disk_.head.checksum = base::fnv1a(bytes, disk_.head.checksum);
    }
  }

  SimDisk disk_;
  machine::LockMachine machine_{{}};
  Instant now_{seconds(1)};
};

// But for the ends of leases, which the recovery extends.
std::vector<std::string> locks_of(const machine::LockMachine& machine) {
  std::vector<std::string> locks;
  for (const machine::LockImage& lock : machine.snapshot().locks) {
    std::ostringstream text;
    text << lock.name << ' ' << static_cast<int>(lock.kind) << ' ' << lock.capacity << ' '
         << lock.last_token.counter << ' ' << lock.next_order << ' ' << lock.value;
    for (const machine::TicketImage& ticket : lock.tickets) {
      text << "; " << ticket.id.high << "." << ticket.id.low << ' ' << ticket.order << ' '
           << static_cast<int>(ticket.mode.kind) << ' ' << ticket.mode.permits << '/'
           << ticket.mode.capacity << ' ' << ticket.held << ticket.system << ' '
           << ticket.upgrade_of.low << ' ' << ticket.token.counter << ' ' << ticket.seq << ' '
           << ticket.lease.count() << ' ' << ticket.ttl.count() << ' ' << ticket.waiter_ttl.count()
           << ' ' << (ticket.owner ? ticket.owner->owner : "");
    }
    for (const machine::TombstoneImage& tombstone : lock.tombstones) {
      text << "; " << tombstone.id.low << " until " << tombstone.until.time_since_epoch().count();
    }
    locks.push_back(text.str());
  }
  return locks;
}

TEST_F(RecoveryTest, TheEffectsOfAMachineAreRecoveredToItsImages) {
  machine::testing::Dice dice(1);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    // No snapshot, one and no batch after it, or both.
    const std::uint64_t snapshot_after = seed % 4 == 0 ? 0 : kBatches - (seed % 4 - 1) * 150;
    const std::uint64_t still = seed % 2 == 0 ? 300 : 3;
    run(seed, snapshot_after, still);
    if (snapshot_after != 0) {
      ASSERT_EQ(disk_.head.batch, snapshot_after);
      EXPECT_EQ(still == 300, disk_.head.count >= SnapshotReader::kLarge) << disk_.head.count;
    }
    auto all = recover();
    ASSERT_TRUE(all) << all.error().message();
    all->machine.check_invariants();
    EXPECT_EQ(locks_of(all->machine), locks_of(machine_));
    EXPECT_EQ(all->machine.floor(), machine_.floor());
    EXPECT_EQ(all->machine.now(), now_);
    EXPECT_EQ(all->last_batch, kBatches);
    std::size_t holders = 0;
    std::size_t waiters = 0;
    for (const machine::LockImage& lock : machine_.snapshot().locks) {
      for (const machine::TicketImage& ticket : lock.tickets) {
        if (ticket.system) continue;
        ++(ticket.held ? holders : waiters);
        EXPECT_TRUE(all->extended.contains(ticket.id));
      }
    }
    EXPECT_EQ(all->holders, holders);
    EXPECT_EQ(all->waiters.size(), waiters);
  }
}

TEST_F(RecoveryTest, EveryLeaseIsExtendedFromTheNewestRecordOn) {
  run(3, 200, 300);
  const auto all = recover();
  ASSERT_TRUE(all) << all.error().message();
  for (const machine::LockImage& lock : all->machine.snapshot().locks) {
    for (const machine::TicketImage& ticket : lock.tickets) {
      if (ticket.system) continue;
      EXPECT_GE(ticket.lease_end, now_ + ticket.ttl) << lock.name;
    }
  }
}

// A thread of its own reads a large snapshot, and the caller a small one.
class DamagedSnapshotTest : public RecoveryTest, public ::testing::WithParamInterface<bool> {
 protected:
  DamagedSnapshotTest() {
    run(7, 300, GetParam() ? 300 : 3);
    EXPECT_EQ(GetParam(), disk_.head.count >= SnapshotReader::kLarge);
    EXPECT_TRUE(recover());
  }

  // Each chunk is damaged in this way in its turn.
  void expect_noticed(const std::function<void(std::uint32_t)>& damage) {
    const SimDisk whole = disk_;
    for (std::uint32_t index = 0; index < whole.head.count; ++index) {
      damage(index);
      const auto all = recover();
      ASSERT_FALSE(all) << index;
      EXPECT_EQ(all.error().code(), Errc::kCorruptState) << all.error().message();
      disk_ = whole;
    }
  }
};

TEST_P(DamagedSnapshotTest, AChangedByteIsNoticed) {
  expect_noticed([&](std::uint32_t index) {
    std::string& bytes = disk_.chunks[{300, index}];
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  });
}

TEST_P(DamagedSnapshotTest, AMissingChunkIsNoticed) {
  expect_noticed([&](std::uint32_t index) { disk_.chunks.erase({300, index}); });
}

TEST_P(DamagedSnapshotTest, AChunkInAnothersPlaceIsNoticed) {
  expect_noticed([&](std::uint32_t index) {
    disk_.chunks[{300, index}] = disk_.chunks[{300, (index + 1) % disk_.head.count}];
    sign_snapshot();
  });
}

// As a broken writer could make it: every checksum is right.
TEST_P(DamagedSnapshotTest, ALockThatComesTwiceIsNoticed) {
  machine::Effect effect;
  effect.kind = machine::EffectKind::kGranted;
  effect.name = "still-1";
  effect.id = {2, 2};
  effect.order = 1;
  effect.token = {0, 103};
  RecordWriter writer({RecordKind::kChunk, 300, disk_.head.count - 1});
  writer.add_lock({"still-1", machine::ModeKind::kExclusive, 1, {0, 103}, 2});
  writer.add_effect(effect);
  disk_.chunks[{300, disk_.head.count - 1}] = writer.finish(Instant(seconds(1)));
  sign_snapshot();
  const auto all = recover();
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code(), Errc::kCorruptState);
  EXPECT_NE(all.error().message().find("still-1"), std::string::npos) << all.error().message();
}

TEST_P(DamagedSnapshotTest, AHeadOfAnotherSnapshotIsNoticed) {
  disk_.head.checksum ^= 1;
  const auto all = recover();
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code(), Errc::kCorruptState);
}

TEST_P(DamagedSnapshotTest, AMissingOrDamagedBatchIsNoticed) {
  const SimDisk whole = disk_;
  for (std::uint64_t number = 301; number < kBatches; ++number) {
    disk_.batches.erase(number);
    EXPECT_FALSE(recover()) << number;
    disk_ = whole;
    disk_.batches[number] = disk_.batches[number + 1];
    EXPECT_FALSE(recover()) << number;
    disk_ = whole;
    disk_.batches[number].back() = static_cast<char>(disk_.batches[number].back() ^ 1);
    EXPECT_FALSE(recover()) << number;
    disk_ = whole;
  }
}

INSTANTIATE_TEST_SUITE_P(Snapshots, DamagedSnapshotTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Large" : "Small"; });

TEST(IdSetTest, ItForgetsWhatIsErased) {
  IdSet set;
  set.reserve(10);
  for (std::uint64_t low = 1; low <= 100; ++low) set.insert({low % 3, low});
  set.insert({1, 1});
  EXPECT_TRUE(set.contains({1, 1}));
  EXPECT_FALSE(set.contains({2, 1}));
  set.erase({2, 1});
  set.erase({1, 1});
  EXPECT_FALSE(set.contains({1, 1}));
  for (std::uint64_t low = 2; low <= 100; ++low) {
    EXPECT_TRUE(set.contains({low % 3, low}));
    set.erase({low % 3, low});
    EXPECT_FALSE(set.contains({low % 3, low}));
  }
  set.insert({1, 1});
  EXPECT_TRUE(set.contains({1, 1}));
}

}  // namespace
}  // namespace holdfast::server
