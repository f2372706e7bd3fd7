// Rule 56: what is not committed is bounded, for each user and in all.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/server/testing/allocated.h"
#include "src/server/testing/shard_rig.h"

namespace holdfast::server {
namespace {

using machine::Outcome;
using testing::ShardRig;

TEST(BacklogTest, ABacklogRefusesBeforeItApplies) {
  ShardRig rig({.user_backlog = 500});
  rig.hold("held", 99);
  ShardRig::Slot last;
  std::uint64_t id = 1;
  for (; id < 100; ++id) {
    last = rig.ask(rig.acquire("lock-" + std::to_string(id), id));
    if (*last) break;
  }
  ASSERT_TRUE(*last);
  EXPECT_EQ((*last)->error().code(), Errc::kQueueFull);
  EXPECT_FALSE(rig.shard().machine().inspect("lock-" + std::to_string(id)));
  EXPECT_FALSE(*rig.ask(rig.acquire("z", 200), 0, "another client"));  // It is applied, and waits.
  EXPECT_TRUE(*rig.ask(machine::Renew{"held", {1, 99}, 1, rig.kTtl, rig.kTtl}));
  rig.commit();
  EXPECT_EQ(rig.shard().backlog(), 0U);
  EXPECT_EQ(rig.hold("again", 300).outcome, Outcome::kHeld);
}

// It is journaled each time, unlike one that lengthens nothing.
TEST(BacklogTest, ARenewalThatLengthensIsRefusedBeforeItIsAppliedWhenThereIsNoRoom) {
  for (const bool full : {false, true}) {
    ShardRig rig({.user_backlog = 500});
    rig.hold("a", 1);
    rig.shard().set_full(full);
    std::uint64_t seq = 0;
    const auto renew = [&](machine::Duration length) {
      rig.pass(std::chrono::milliseconds(1));  // So that the end of the lease moves.
      return rig.ask(machine::Renew{"a", {1, 1}, ++seq, length, length});
    };
    const auto lease_end = [&] {
      return rig.shard().machine().inspect("a")->tickets.front().lease_end;
    };
    machine::Instant before{};
    ShardRig::Slot longer;
    do {
      before = lease_end();
      longer = renew(rig.kTtl * static_cast<std::int64_t>(3 + seq));
    } while (!*longer && seq < 100);
    ASSERT_TRUE(*longer) << "what is not committed has no bound";
    EXPECT_EQ((*longer)->error().code(), full ? Errc::kUnavailable : Errc::kQueueFull);
    EXPECT_EQ(lease_end(), before);
    EXPECT_LT(rig.shard().backlog(), full ? 1U : 600U);
    const auto usual = renew(rig.kTtl);
    rig.shard().set_full(false);
    rig.commit();
    ASSERT_TRUE(*usual);
    EXPECT_EQ((**usual)->reply.outcome, Outcome::kHeld);
    const auto again = renew(3 * rig.kTtl);
    rig.commit();
    EXPECT_EQ((**again)->reply.outcome, Outcome::kHeld);
  }
}

TEST(BacklogTest, ALongerLeaseThatTheJournalHasIsRenewedWithoutRoom) {
  ShardRig rig;
  rig.hold("a", 1);
  const machine::Duration longer = 3 * rig.kTtl;
  const auto first = rig.ask(machine::Renew{"a", {1, 1}, 1, longer, longer});
  rig.commit();
  ASSERT_TRUE(*first);
  rig.shard().set_full(true);
  const auto again = rig.ask(machine::Renew{"a", {1, 1}, 2, longer, longer});
  ASSERT_TRUE(*again && **again) << "it needs no room";
  EXPECT_EQ((**again)->reply.outcome, Outcome::kHeld);
}

TEST(BacklogTest, AUserHasOneShareHoweverManyClientsItHas) {
  ShardRig rig({.user_backlog = 500});
  std::uint64_t id = 0;
  std::vector<Errc> refused;
  const auto ask = [&](const std::string& user) {
    ++id;
    Request request{"client-" + std::to_string(id), 0, rig.acquire("a", id)};
    request.user = user;
    rig.shard().submit(rig.boot, request, [&](const Result<Answer>& answer) {
      if (!answer) refused.push_back(answer.error().code());
    });
  };
  while (refused.empty() && id < 100) ask("greedy");
  EXPECT_EQ(refused, std::vector<Errc>{Errc::kQueueFull});
  ask("another");
  EXPECT_EQ(refused.size(), 1U) << "it has a share of its own";
  const auto keep = [&](const std::string& user) {
    std::optional<Errc> why;
    rig.shard().keep(rig.boot, {.key = "k" + user, .text = "t", .user = user},
                     [&](const Result<std::optional<std::uint64_t>>& kept) {
                       if (!kept) why = kept.error().code();
                     });
    return why;
  };
  EXPECT_EQ(keep("greedy"), Errc::kQueueFull);
  EXPECT_EQ(keep("another"), std::nullopt);
  rig.commit();
  EXPECT_EQ(rig.shard().backlog(), 0U);
  ask("greedy");
  EXPECT_EQ(refused.size(), 1U);
}

TEST(BacklogTest, NamesOfClientsLeaveNoMemory) {
  if (!testing::counts_memory()) GTEST_SKIP() << "a sanitizer's allocator tells nothing";
  ShardRig rig;
  rig.hold("held", 1);
  const std::size_t before = testing::allocated();
  for (int i = 0; i < 200'000; ++i) {
    rig.ask(machine::Release{"none", {1, 2}, {}}, 0, "client-" + std::to_string(i));
    if (i % 1'000 == 0) rig.commit();
  }
  EXPECT_LT(testing::allocated(), before + (std::size_t{8} << 20U));
  EXPECT_EQ((**rig.ask(machine::Renew{"held", {1, 1}, 1, rig.kTtl, rig.kTtl}))->reply.outcome,
            Outcome::kHeld);
}

}  // namespace
}  // namespace holdfast::server
