// How many shards a journal has, on real etcd.
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/etcd/journal/journal.h"
#include "src/stores/etcd/journal/journal_shards.h"
#include "src/stores/etcd/journal/members.h"
#include "src/stores/etcd/test_clerk.h"
#include "tests/support/etcd_server.h"

namespace holdfast::stores::etcd {
namespace {

using support::EtcdCluster;

class JournalShardsTest : public ::testing::Test {
 protected:
  JournalSettings settings() const {
    auto parsed = port::StoreUrl::parse(etcd_.url("/team?leadership=2s"));
    auto settings = parse_journal_url(*parsed);
    if (!settings) throw std::runtime_error(settings.error().message());
    return *std::move(settings);
  }
  Result<std::uint32_t> fix(std::uint32_t wanted) const {
    return fix_shards(settings().address, wanted, BootClock::now() + kSoon);
  }
  Errc refused(std::uint32_t wanted) const {
    const auto fixed = fix(wanted);
    return fixed ? Errc{} : fixed.error().code();
  }
  std::unique_ptr<port::Journal> journal(port::ShardNumber shard) const {
    JournalSettings wanted = settings();
    wanted.shard = shard;
    auto made = EtcdJournal::make(std::move(wanted), base::BootInstant::max());
    if (!made) throw std::runtime_error(made.error().message());
    return *std::move(made);
  }

  EtcdCluster etcd_;
};

TEST_F(JournalShardsTest, TheFirstServerFixesTheNumberForGood) {
  EXPECT_EQ(fix(3).value(), 3U);
  EXPECT_EQ(fix(0).value(), 3U);
  EXPECT_EQ(fix(3).value(), 3U);
  EXPECT_EQ(refused(1), Errc::kInvalidArgument);
  EXPECT_EQ(refused(4), Errc::kInvalidArgument);
  EXPECT_EQ(etcd_.etcdctl({"get", "--print-value-only", "team/hf1/j/about"}), "2 3 fnv1a-folded\n");
}

TEST_F(JournalShardsTest, ANewJournalHasEightUnlessAnotherNumberIsWished) {
  EXPECT_EQ(fix(0).value(), 8U);
  EXPECT_EQ(fix(0).value(), 8U);
  EXPECT_EQ(refused(1), Errc::kInvalidArgument);
}

TEST_F(JournalShardsTest, AJournalOfBeforeHasOneShard) {
  const auto before = journal({});
  ASSERT_TRUE(before->lead("one:1", BootClock::now() + kSoon).value());
  EXPECT_EQ(fix(0).value(), 1U);
  EXPECT_EQ(fix(1).value(), 1U);
  EXPECT_EQ(refused(2), Errc::kInvalidArgument);
}

// It reads the same key, and knows format 1 only.
TEST_F(JournalShardsTest, AServerOfBeforeRefusesAJournalWithSeveral) {
  ASSERT_EQ(fix(2).value(), 2U);
  const auto leads = journal({})->lead("one:1", BootClock::now() + kSoon);
  ASSERT_FALSE(leads);
  EXPECT_EQ(leads.error().code(), Errc::kVersionMismatch) << leads.error().message();
}

TEST_F(JournalShardsTest, OfServersThatBeginAtOnceOneDecides) {
  std::vector<std::future<Result<std::uint32_t>>> asked;
  for (std::uint32_t i = 0; i < 6; ++i) {
    asked.push_back(std::async(std::launch::async, [this, i] { return fix(2 + i % 2); }));
  }
  std::uint32_t agreed = 0;
  for (auto& each : asked) {
    const auto fixed = each.get();
    if (!fixed) {
      EXPECT_EQ(fixed.error().code(), Errc::kInvalidArgument) << fixed.error().message();
      continue;
    }
    EXPECT_TRUE(agreed == 0 || agreed == *fixed);
    agreed = *fixed;
  }
  EXPECT_EQ(fix(0).value(), agreed);
}

TEST_F(JournalShardsTest, ARecordThatIsGoneOrDamagedIsNoNewJournal) {
  ASSERT_EQ(fix(2).value(), 2U);
  ASSERT_TRUE(journal({1, 2})->lead("one:1", BootClock::now() + kSoon).value());
  etcd_.etcdctl({"del", "team/hf1/j/about"});
  EXPECT_EQ(refused(2), Errc::kCorruptState);
  EXPECT_EQ(refused(0), Errc::kCorruptState);
  etcd_.etcdctl({"put", "team/hf1/j/about", "2 many"});
  EXPECT_EQ(refused(0), Errc::kCorruptState);
  etcd_.etcdctl({"put", "team/hf1/j/about", "2 2 crc"});
  EXPECT_EQ(refused(0), Errc::kVersionMismatch);
  etcd_.etcdctl({"put", "team/hf1/j/about", "3 2"});
  EXPECT_EQ(refused(0), Errc::kVersionMismatch);
}

// Each has a leader, a term and batches of its own, and the list of servers has all.
TEST_F(JournalShardsTest, ShardsAreLedIndependently) {
  ASSERT_EQ(fix(2).value(), 2U);
  const auto first = journal({0, 2});
  const auto second = journal({1, 2});
  ASSERT_TRUE(first->lead("one:1", BootClock::now() + kSoon).value());
  ASSERT_TRUE(second->lead("two:1", BootClock::now() + kSoon).value());
  ASSERT_TRUE(first->open() && second->open());
  EXPECT_NE(first->id(), second->id());
  EXPECT_EQ(first->commit(1, "batch"), port::Commit::kCommitted);
  EXPECT_EQ(second->last().value(), 0U);
  EXPECT_EQ(first->last().value(), 1U);
  const auto members = EtcdMembers::make(settings(), 2).value();
  Awaited<port::MembersList> answer;
  members->list(BootClock::now() + kSoon, answer.done());
  EXPECT_EQ(answer.wait().value().leaders, (std::vector<std::string>{"one:1", "two:1"}));
}

}  // namespace
}  // namespace holdfast::stores::etcd
