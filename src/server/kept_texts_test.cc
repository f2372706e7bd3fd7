// Kept texts in a shard: what is answered when, and what stays.
#include "src/server/kept_texts.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "src/server/compactor.h"
#include "src/server/testing/shard_rig.h"

namespace holdfast::server::testing {
namespace {

using Version = std::optional<std::uint64_t>;
template <typename T>
using Slot = std::shared_ptr<std::optional<Result<T>>>;

class KeptTextsTest : public ::testing::Test {
 protected:
  Slot<Version> keep(const std::string& key, std::uint64_t version, const std::string& text) {
    auto slot = std::make_shared<std::optional<Result<Version>>>();
    rig_.shard().keep(rig_.boot, {key, version, text},
                      [slot](Result<Version> answer) { slot->emplace(std::move(answer)); });
    return slot;
  }
  Slot<std::optional<KeptText>> kept(const std::string& key) {
    auto slot = std::make_shared<std::optional<Result<std::optional<KeptText>>>>();
    rig_.shard().kept(rig_.boot, key, [slot](Result<std::optional<KeptText>> answer) {
      slot->emplace(std::move(answer));
    });
    return slot;
  }
  std::string text_now(const std::string& key) {
    const auto slot = kept(key);
    rig_.commit();
    return *slot && **slot && ***slot ? (***slot)->text : "nothing";
  }

  ShardRig rig_;
};

TEST_F(KeptTextsTest, AChangeIsAnsweredAfterItsCommit) {
  const auto made = keep("a", 0, "one");
  const auto read = kept("a");
  const auto late = keep("a", 0, "other");
  EXPECT_FALSE(*made);
  EXPECT_FALSE(*read) << "what it would tell is not committed";
  EXPECT_FALSE(*late) << "nor is what it lost to";
  rig_.commit();
  ASSERT_TRUE(*made && **made && ***made);
  EXPECT_EQ((***read)->text, "one");
  EXPECT_EQ((***read)->version, ****made);
  EXPECT_FALSE(***late);
}

TEST_F(KeptTextsTest, AChangeTakesPlaceOnlyInTheVersionThatItNames) {
  const auto first = keep("a", 0, "one");
  rig_.commit();
  const std::uint64_t version = ****first;
  const auto second = keep("a", version, "two");
  const auto repeated = keep("a", version, "two again");
  rig_.commit();
  EXPECT_GT(****second, version);
  EXPECT_FALSE(***repeated);
  EXPECT_EQ(text_now("a"), "two");
  EXPECT_EQ(text_now("b"), "nothing");
}

TEST_F(KeptTextsTest, TheyOutliveARestart) {
  const auto first = keep("a", 0, "one");
  rig_.commit();
  keep("b", 0, "not committed");
  rig_.restart();
  EXPECT_EQ(text_now("a"), "one");
  EXPECT_EQ(text_now("b"), "nothing");
  const auto next = keep("a", ****first, "two");
  rig_.commit();
  EXPECT_GT(****next, ****first);
}

TEST_F(KeptTextsTest, ASnapshotHasThem) {
  for (int key = 0; key < 40; ++key) keep(std::to_string(key), 0, std::string(100, 'x'));
  rig_.commit();
  SimJournal journal(rig_.disk);
  ASSERT_TRUE(journal.open());
  const std::uint64_t last = *journal.last();
  Compactor compactor(journal, {.bytes = 100, .chunk = 500}, rig_.disk.head, last);
  compactor.note_commit(last, 1'000);
  while (compactor.busy()) ASSERT_EQ(compactor.step(), Commit::kCommitted);
  EXPECT_EQ(rig_.disk.head.batch, last);
  EXPECT_GT(rig_.disk.head.count, 5U);
  for (const auto& [place, bytes] : rig_.disk.chunks) EXPECT_LT(bytes.size(), 1'000U);
  auto all = recover(journal, {}, 1);
  ASSERT_TRUE(all);
  int found = 0;
  while (all->rest.kept.take_first()) ++found;
  EXPECT_EQ(found, 40);
}

TEST_F(KeptTextsTest, AFullJournalRefusesChangesAndTellsWhatIsCommitted) {
  const auto first = keep("a", 0, "one");
  rig_.commit();
  ASSERT_TRUE(**first);
  rig_.shard().set_full(true);
  const auto change = keep("a", ****first, "two");
  ASSERT_TRUE(*change);
  EXPECT_EQ((*change)->error().code(), Errc::kUnavailable);
  const auto read = kept("a");
  ASSERT_TRUE(*read && **read);
  EXPECT_EQ((***read)->text, "one");
}

// "No numbers left" may tell of a range that was never given.
TEST_F(KeptTextsTest, ARefusedChangeIsToldWhenWhatItHasSeenIsCommitted) {
  const auto refused = [&] {
    auto slot = std::make_shared<std::optional<Result<Version>>>();
    const Service::Change never = [](const KeptTexts&) -> Result<KeepText> {
      return Error(Errc::kUnsupported, "no numbers left");
    };
    rig_.shard().change_kept(rig_.boot, {}, never,
                             [slot](Result<Version> answer) { slot->emplace(std::move(answer)); });
    return slot;
  };
  const auto settled = refused();
  ASSERT_TRUE(*settled);
  EXPECT_EQ((*settled)->error().code(), Errc::kUnsupported);
  keep("a", 0, "one");
  const auto early = refused();
  EXPECT_FALSE(*early);
  rig_.commit();
  ASSERT_TRUE(*early);
  EXPECT_EQ((*early)->error().code(), Errc::kUnsupported);
  rig_.shard().lead_until(rig_.boot);
  const auto late = refused();
  EXPECT_FALSE(*late) << "another server may lead";
  keep("b", 0, "two");
  ASSERT_TRUE(rig_.begin());
  const auto lost = refused();
  rig_.shard().fail(Error(Errc::kUnavailable, "another server leads"), /*unknown=*/true);
  for (const auto& each : {late, lost, refused()}) {
    ASSERT_TRUE(*each && !**each);
    EXPECT_NE((*each)->error().code(), Errc::kUnsupported);
  }
}

TEST_F(KeptTextsTest, WhatIsTooLongIsRefused) {
  EXPECT_EQ((*keep(std::string(401, 'k'), 0, ""))->error().code(), Errc::kInvalidArgument);
  EXPECT_EQ((*keep("a", 0, std::string(8'193, 't')))->error().code(), Errc::kInvalidArgument);
}

TEST(KeptTexts, HaveABound) {
  KeptTexts texts;
  const std::string long_text(1U << 20U, 't');
  for (int each = 0; each < 64; ++each) texts.set(std::to_string(each), {long_text, 1});
  EXPECT_FALSE(texts.has_room_for("more", 1));
  EXPECT_TRUE(texts.has_room_for("0", long_text.size()));
  texts.set("0", {"short", 2});
  EXPECT_TRUE(texts.has_room_for("more", 1));
  KeptTexts many;
  for (std::size_t each = 0; each < KeptTexts::kMost; ++each) many.set(std::to_string(each), {});
  EXPECT_FALSE(many.has_room_for("more", 1));
  EXPECT_TRUE(many.has_room_for("0", 1));
}

}  // namespace
}  // namespace holdfast::server::testing
