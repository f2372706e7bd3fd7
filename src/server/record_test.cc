#include "src/server/record.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/server/fold.h"

namespace holdfast::server {
namespace {

using machine::Effect;
using machine::EffectKind;
using machine::Instant;
using std::chrono::seconds;

// Writes down everything it is told.
class Scribe final : public RecordVisitor {
 public:
  bool on_effect(Effect& effect) override {
    effects.push_back(std::move(effect));
    return true;
  }
  bool on_floor(machine::Token floor) override { return note("floor", floor.counter); }
  bool on_mark(std::string client, std::string lock, std::uint64_t issue) override {
    return note(client + "/" + lock, issue);
  }
  bool on_client_floor(std::string client, std::uint64_t issue) override {
    return note(client, issue);
  }
  bool on_lock(LockHead& lock) override { return note(lock.name, lock.next_order); }
  bool on_trace(std::string lock, BreakTrace trace) override {
    return note(lock + " by " + trace.by->owner, trace.token.counter);
  }
  bool on_kept(std::string key, KeptText text) override {
    return note(key + " keeps " + text.text, text.version);
  }
  bool on_closing() override { return note("closing", 0); }
  bool on_end(Instant at) override {
    end = at;
    return true;
  }

  std::vector<Effect> effects;
  std::vector<std::string> notes;
  Instant end{};

 private:
  bool note(const std::string& what, std::uint64_t number) {
    notes.push_back(what + " " + std::to_string(number));
    return true;
  }
};

Effect granted() {
  Effect effect;
  effect.kind = EffectKind::kGranted;
  effect.name = "orders/42";
  effect.id = {1, 2};
  effect.order = 300;
  effect.mode = machine::Mode::of_permits(2, 5);
  effect.upgrade_of = {3, 4};
  effect.token = {6, 1'700'000'000'000'007};
  effect.lease_end = Instant(seconds(99));
  effect.seq = 8;
  effect.lease = seconds(10);
  effect.ttl = seconds(30);
  effect.waiter_ttl = seconds(5);
  auto owner = std::make_shared<machine::OwnerInfo>();
  owner->owner = "somebody";
  owner->wake = "there";
  effect.owner = owner;
  return effect;
}

std::string sample() {
  RecordWriter writer({RecordKind::kBatch, 77, 0});
  writer.add_floor({0, 500});
  writer.add_effect(granted());
  writer.add_mark("client", "orders/42", 9);
  writer.add_client_floor("client", 3);
  writer.add_lock({"lock", machine::ModeKind::kExclusive, 1, {0, 4}, 12});
  writer.add_trace("lock", {{0, 44}, granted().owner});
  return writer.finish(Instant(seconds(100)));
}

TEST(RecordTest, WhatWasWrittenIsReadInItsOrder) {
  Scribe scribe;
  const auto head = read_record(sample(), scribe);
  ASSERT_TRUE(head) << head.error().message();
  EXPECT_EQ(head->kind, RecordKind::kBatch);
  EXPECT_EQ(head->number, 77U);
  EXPECT_EQ(scribe.notes, (std::vector<std::string>{"floor 500", "client/orders/42 9", "client 3",
                                                    "lock 12", "lock by somebody 44"}));
  EXPECT_EQ(scribe.end, Instant(seconds(100)));
  ASSERT_EQ(scribe.effects.size(), 1U);
  const Effect& read = scribe.effects[0];
  const Effect written = granted();
  EXPECT_EQ(read.name, written.name);
  EXPECT_EQ(read.id, written.id);
  EXPECT_EQ(read.order, written.order);
  EXPECT_EQ(read.mode, written.mode);
  EXPECT_EQ(read.upgrade_of, written.upgrade_of);
  EXPECT_EQ(read.token, written.token);
  EXPECT_EQ(read.lease_end, written.lease_end);
  EXPECT_EQ(read.seq, written.seq);
  EXPECT_EQ(read.lease, written.lease);
  EXPECT_EQ(read.ttl, written.ttl);
  EXPECT_EQ(read.waiter_ttl, written.waiter_ttl);
  EXPECT_EQ(*read.owner, *written.owner);
}

// A server of before kept texts says then that it is too old, in place of losing them.
TEST(RecordTest, AKeptTextMakesTheRecordOneOfALaterVersion) {
  RecordWriter writer({RecordKind::kChunk, 77, 3});
  writer.add_kept("ids/a", {"text\n", 12});
  const std::string bytes = writer.finish(Instant(seconds(100)));
  EXPECT_EQ(bytes.substr(0, 4), "HFJ\x02");
  EXPECT_EQ(sample().substr(0, 4), "HFJ\x01");
  Scribe scribe;
  ASSERT_TRUE(read_record(bytes, scribe));
  EXPECT_EQ(scribe.notes, (std::vector<std::string>{"ids/a keeps text\n 12"}));
}

TEST(RecordTest, ATornRecordIsRefused) {
  const std::string whole = sample();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Scribe scribe;
    EXPECT_FALSE(read_record(whole.substr(0, size), scribe)) << size;
    EXPECT_TRUE(scribe.effects.empty() && scribe.notes.empty()) << size;
  }
}

TEST(RecordTest, EveryChangedBitIsFound) {
  const std::string whole = sample();
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    Scribe scribe;
    EXPECT_FALSE(read_record(changed, scribe)) << bit;
  }
}

TEST(FoldTest, ARecordAtAnotherPlaceIsRefused) {
  RecordWriter writer({RecordKind::kBatch, 5, 0});
  const std::string bytes = writer.finish(Instant(seconds(1)));
  EXPECT_TRUE(Fold().batch(5, bytes));
  const auto wrong = Fold().batch(6, bytes);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), Errc::kCorruptState);
}

TEST(FoldTest, AnEndOfNobodysTicketIsRefused) {
  RecordWriter writer({RecordKind::kBatch, 1, 0});
  Effect effect = granted();
  effect.kind = EffectKind::kReleased;
  writer.add_effect(effect);
  EXPECT_FALSE(Fold().batch(1, writer.finish(Instant(seconds(1)))));
}

TEST(MarksTest, ASeenNumberIsOldAndANewOneIsNot) {
  Marks marks;
  EXPECT_FALSE(marks.is_old("c", "lock", 5));
  EXPECT_TRUE(marks.raise("c", "lock", 5));
  EXPECT_FALSE(marks.raise("c", "lock", 4));
  EXPECT_TRUE(marks.is_old("c", "lock", 5));
  EXPECT_FALSE(marks.is_old("c", "lock", 6));
  EXPECT_FALSE(marks.is_old("c", "other", 5));
  EXPECT_FALSE(marks.is_old("d", "lock", 5));
}

// The bound of a client's marks may refuse too much, never too little.
TEST(MarksTest, ADroppedMarkMakesItsNumberOldEverywhere) {
  Marks marks(/*locks_per_client=*/2);
  marks.raise("c", "a", 1);
  marks.raise("c", "b", 2);
  marks.raise("c", "d", 3);
  EXPECT_TRUE(marks.is_old("c", "a", 1));
  EXPECT_TRUE(marks.is_old("c", "never", 1));
  EXPECT_FALSE(marks.is_old("c", "never", 2));
}

// A forgotten client cannot be told from a new one, so its late request is granted.
TEST(MarksTest, TheClientThatWasSeenLeastRecentlyIsForgotten) {
  Marks marks(/*locks_per_client=*/2, /*clients=*/2);
  marks.raise("c", "a", 1);
  marks.raise("d", "a", 1);
  marks.raise("c", "a", 2);
  marks.raise("e", "a", 1);
  EXPECT_TRUE(marks.is_old("c", "a", 2));
  EXPECT_TRUE(marks.is_old("e", "a", 1));
  EXPECT_FALSE(marks.is_old("d", "a", 1));
}

}  // namespace
}  // namespace holdfast::server
