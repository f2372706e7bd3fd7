#include "src/ids/leased/slot.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/ids/fake_clock.h"
#include "src/ids/segments/testing/model_records.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ModelStore;

constexpr milliseconds kLease{30'000};

struct TestLease final : SlotLease {
  TestLease(Token its, FakeClock& its_clock) : given(its), clock(its_clock) {
    end = clock.boot() + kLease;
  }
  Token token() const override { return given; }
  bool held() const override { return clock.boot() < end && !doubt; }
  Result<void> resolve_doubt() override {
    if (doubt && !answers) return Error(Errc::kUnavailable, "no answer");
    doubt = false;
    return {};
  }
  nanoseconds deadline() const override { return end; }
  void release() override { end = {}; }

  Token given;
  FakeClock& clock;
  nanoseconds end{};
  bool doubt = false;
  bool answers = true;
};

class SlotTest : public ::testing::Test {
 protected:
  SlotTest() {
    const base::LocalLock lock(records->mutex);
    records->records = store.client(1);
  }

  static LeasedWorkersSpec spec_of(const char* policy = "logical") {
    return {*Layout::parse("time:41 worker:4 sequence:12"), *ClockPolicy::parse(policy), 4};
  }
  Result<void> create(const std::string& name, const LeasedWorkersSpec& spec) {
    return create_workers(*store.client(0), name, spec, {});
  }
  void make(const char* policy = "logical") {
    ASSERT_TRUE(create("orders", spec_of(policy)));
    head = std::make_unique<WorkersHead>(*read_workers_head(*store.client(0), "orders", {}));
  }
  Result<std::unique_ptr<Snowflake>> take(std::uint64_t token, std::int64_t above = -1) {
    auto made = std::make_unique<TestLease>(Token{0, token}, clock);
    lease = made.get();
    return take_slot(*head, 0, std::move(made), above,
                     {.records = records,
                      .ttl = kLease,
                      .request_timeout = milliseconds(100),
                      .clock = &clock,
                      .looks_ahead = false,
                      .permit = &permit});
  }
  SlotState slot() const {
    return *SlotState::parse(store.records.at(head->slot_key(0)).text, head->incarnation, 0,
                             "slot");
  }
  void put(const SlotState& state) {
    store.records[head->slot_key(0)] = {state.text(), ++store.changes};
  }
  std::int64_t unit(milliseconds from_now = {}) const {
    return spec_of().layout.unit_of(clock.wall() + from_now);
  }
  static Errc code(const Result<std::unique_ptr<Snowflake>>& taken) {
    return taken ? Errc{} : taken.error().code();
  }

  ModelStore store{1};
  FakeClock clock{kNow};
  SharedRecordsPtr records = std::make_shared<SharedRecords>();
  std::unique_ptr<WorkersHead> head;
  TestLease* lease = nullptr;
  std::shared_ptr<ReservingPermit> permit;
  std::vector<std::unique_ptr<Snowflake>> dead;  // Killed: they say no last word during a case.
};

TEST_F(SlotTest, ATimeIsReservedBeforeTheFirstIdAndTheNextHolderBeginsAbove) {
  make();
  auto first = take(1);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(slot().bounds.reserved_until, unit(2 * kLease));
  EXPECT_EQ(slot().token, (Token{0, 1}));
  const auto id = (*first)->next();
  ASSERT_TRUE(id);
  // The first holder is gone without a word.
  dead.push_back(*std::move(first));
  auto second = take(2);
  ASSERT_TRUE(second);
  const auto later = (*second)->next();
  ASSERT_TRUE(later);
  EXPECT_GT(later->number(), id->number());
  EXPECT_GE(spec_of().layout.decode(*later)->unix_time, kNow + 2 * kLease);
}

// A host whose clock is ahead would reserve a time that others come to long after.
// The times of such a layout end after those that 63 bits of nanoseconds can tell.
TEST_F(SlotTest, TheNextHolderBeginsAboveInALayoutThatEndsAfter2262) {
  for (const char* text : {"time:43 worker:4 sequence:12", "time:45 worker:4 sequence:12",
                           "time:58 worker:4 sequence:1", "time:40 worker:4 sequence:12 unit:1s",
                           "time:59 worker:4", "time:50 worker:4 sequence:9 unit:10s"}) {
    SCOPED_TRACE(text);
    const LeasedWorkersSpec spec{*Layout::parse(text), {}, 4};
    const std::string name = "orders" + std::to_string(store.changes);
    ASSERT_TRUE(create(name, spec));
    head = std::make_unique<WorkersHead>(*read_workers_head(*store.client(0), name, {}));
    auto first = take(1);
    ASSERT_TRUE(first) << first.error().message();
    const std::int64_t reserved = slot().bounds.reserved_until;
    ASSERT_TRUE((*first)->next());
    dead.push_back(*std::move(first));
    clock.step(milliseconds(-50'000));
    auto second = take(2);
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_EQ((*second)->last_unit(), reserved - 1);
    const auto id = (*second)->next();
    ASSERT_TRUE(id) << id.error().message();
    EXPECT_GE(spec.layout.decode(*id)->time, static_cast<std::uint64_t>(reserved));
    dead.push_back(*std::move(second));
    clock.step(milliseconds(50'000));
  }
}

TEST_F(SlotTest, AClockAheadOfTheStoresReservesNothing) {
  make();
  const std::string before = slot().text();
  store.wall_time = kNow - milliseconds(60'001);
  const auto ahead = take(1);
  EXPECT_EQ(code(ahead), Errc::kUnavailable);
  EXPECT_NE(ahead.error().message().find("60 s ahead"), std::string::npos)
      << ahead.error().message();
  EXPECT_EQ(slot().text(), before);
  for (const milliseconds fine : {-milliseconds(60'000), milliseconds(86'400'000)}) {
    store.wall_time = kNow + fine;
    EXPECT_EQ(code(take(2)), Errc{}) << fine.count();
    put({.incarnation = head->incarnation, .bounds = {0, {}}});
  }
}

TEST_F(SlotTest, ACleanEndLowersTheBoundAndReleases) {
  make();
  auto ids = take(1);
  ASSERT_TRUE((*ids)->next());
  permit = nullptr;
  *ids = nullptr;
  EXPECT_EQ(slot().bounds.reserved_until, unit() + 1);
}

TEST_F(SlotTest, IdsEndWithTheLeaseAndGoOnWithARenewal) {
  make();
  auto ids = take(1);
  ASSERT_TRUE((*ids)->next());
  clock.pass(kLease - milliseconds(5));
  EXPECT_EQ((*ids)->next().error().code(), Errc::kLost) << "what is read once in a tick is old";
  auto again = take(2);
  ASSERT_TRUE(again);
  lease->end += 10 * kLease;
  clock.pass(2 * kLease);
  EXPECT_TRUE((*again)->next());
}

TEST_F(SlotTest, ADoubtAboutTheLeaseIsNotALoss) {
  make();
  auto ids = take(1);
  const std::uint64_t first = (*ids)->next()->number();
  lease->end += 10 * kLease;
  lease->doubt = true;
  lease->answers = false;
  clock.pass(2 * kLease);
  for (int i = 0; i < 2; ++i) {
    const auto none = (*ids)->next();
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), Errc::kUnavailable);
  }
  lease->answers = true;
  const auto id = (*ids)->next();
  ASSERT_TRUE(id) << id.error();
  EXPECT_GT(id->number(), first);
  lease->doubt = true;
  lease->end = {};
  clock.pass(2 * kLease);
  const auto late = (*ids)->next();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Errc::kLost) << "the store says that it ended";
}

TEST_F(SlotTest, AnotherHolderEndsThisOneForGood) {
  make();
  auto old = take(1);
  ASSERT_TRUE((*old)->next());
  const auto old_permit = permit;
  lease->end += 100 * kLease;  // It believes in its lease.
  auto next = take(2);
  ASSERT_TRUE((*next)->next());
  EXPECT_TRUE((*old)->next()) << "below its own bound, which the next holder began above";
  EXPECT_EQ(old_permit->ended(unit(3 * kLease)).error().code(), Errc::kLost);
  clock.pass(milliseconds(1));
  EXPECT_EQ((*old)->next().error().code(), Errc::kLost);
  EXPECT_TRUE((*next)->next());
}

TEST_F(SlotTest, WhatTheStoreLostIsAnErrorAndNeverABeginning) {
  make();
  store.records.erase(head->slot_key(0));
  EXPECT_EQ(code(take(1)), Errc::kCorruptState);
  store.records[head->slot_key(0)] = {"holdfast-ids 1\nkind=worker\n", 99};
  EXPECT_EQ(code(take(1)), Errc::kCorruptState);
  SlotState newer{.incarnation = head->incarnation, .worker = 0, .token = {0, 9}};
  put(newer);
  EXPECT_EQ(code(take(3)), Errc::kLost) << "a holder with a higher token was here";
  newer.worker = 1;
  put(newer);
  EXPECT_EQ(code(take(10)), Errc::kCorruptState) << "another worker's record";
  newer = {.incarnation = "another", .worker = 0};
  put(newer);
  EXPECT_EQ(code(take(10)), Errc::kCorruptState) << "another namespace's record";
}

TEST_F(SlotTest, AnOlderCopyThatIsPutBackIsFound) {
  for (const bool of_this_holder : {false, true}) {
    store.records.clear();
    make();
    auto copy = store.records;
    auto ids = take(1);
    ASSERT_TRUE((*ids)->next());
    if (of_this_holder) copy = store.records;
    ASSERT_TRUE(permit->ended(unit(3 * kLease)));
    store.records = copy;
    EXPECT_EQ(permit->ended(unit(6 * kLease)).error().code(), Errc::kCorruptState);
    clock.pass(milliseconds(1));
    EXPECT_EQ((*ids)->next().error().code(), Errc::kCorruptState);
  }
}

TEST_F(SlotTest, ASlotThatIsReservedTooFarAheadIsLeftOut) {
  make();
  SlotState state = slot();
  state.bounds.reserved_until = unit(2 * kLease + milliseconds(60'001));
  put(state);
  const auto taken = take(1);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, nullptr);
  EXPECT_FALSE(lease == nullptr);
  EXPECT_EQ(slot().bounds.reserved_until, state.bounds.reserved_until) << "nothing lowers it";
}

TEST_F(SlotTest, ACrashLoopDoesNotRunAwayFromTheClock) {
  make();
  for (std::uint64_t token = 1; token <= 50; ++token) {
    auto ids = take(token);
    ASSERT_TRUE(ids);
    ASSERT_TRUE(*ids) << "left out after " << token;
    ASSERT_TRUE((*ids)->next());
    dead.push_back(*std::move(ids));
    EXPECT_LE(slot().bounds.reserved_until,
              unit(2 * kLease + milliseconds(1'001) * static_cast<std::int64_t>(token)));
  }
}

// Rule 7: the jump is not believed, so it must not get into the bound either.
TEST_F(SlotTest, AJumpForwardIsNotReserved) {
  make();
  auto ids = take(1);
  lease->end += 100 * kLease;
  ASSERT_TRUE((*ids)->next());
  permit->look_ahead();
  clock.pass(milliseconds(40'000));
  ASSERT_TRUE((*ids)->next());
  const std::int64_t before = unit();
  clock.step(std::chrono::hours(24));
  permit->look_ahead();
  EXPECT_LE(slot().bounds.reserved_until,
            before + (2 * kLease + milliseconds(60'000)) / milliseconds(1));
  EXPECT_EQ((*ids)->next().error().code(), Errc::kUnavailable);
}

TEST_F(SlotTest, AnObjectsLastTimeIsABoundToo) {
  make();
  const auto ids = take(1, unit(milliseconds(5'000)));
  ASSERT_TRUE(ids);
  EXPECT_GT(spec_of().layout.decode(*(*ids)->next())->unix_time, kNow + milliseconds(5'000));
}

TEST_F(SlotTest, RoundsAreKeptForTheNextHolder) {
  make("step:1024");
  auto ids = take(1);
  ASSERT_TRUE((*ids)->next());
  clock.step(-milliseconds(10));
  ASSERT_TRUE((*ids)->next());
  EXPECT_EQ(slot().bounds.rounds->current, 1U);
  dead.push_back(*std::move(ids));
  auto next = take(2);
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(slot().bounds.rounds->current, 1U);
}

TEST_F(SlotTest, ANamespaceIsMadeOnceAndOfOneKind) {
  make();
  EXPECT_EQ(create("orders", spec_of()).error().code(), Errc::kStoreInUse);
  EXPECT_EQ(create("..", spec_of()).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(create("a/b", spec_of()).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(create("", spec_of()).error().code(), Errc::kInvalidArgument);
  LeasedWorkersSpec spec = spec_of();
  spec.workers = 17;
  EXPECT_EQ(create("many", spec).error().code(), Errc::kInvalidArgument);
  spec.workers = 0;
  EXPECT_EQ(create("none", spec).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(read_workers_head(*store.client(0), "none", {}).error().code(), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast::ids
