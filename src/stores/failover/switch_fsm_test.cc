#include "src/stores/failover/switch_fsm.h"

#include <gtest/gtest.h>

namespace holdfast::stores::failover {
namespace {

using namespace std::chrono_literals;
using Phase = SwitchFsm::Phase;

class SwitchFsmTest : public ::testing::Test {
 protected:
  static SwitchFsm make(SwitchFsm::Mutation mutation = {}) {
    SwitchFsm::Terms terms;
    terms.first = {"c", "a", 0, 0, 0, false, 10'000, 10'000};
    terms.stores = 2;
    terms.tick = 1s;
    terms.patience = 5s;
    terms.settled = 20s;
    terms.mutation = mutation;
    return SwitchFsm(terms);
  }
  ChainRecord active() const { return {"c", "a", 100, 99, 0, false, 10'000, 10'000}; }
  base::BootInstant now(std::chrono::seconds time) const { return base::BootInstant(time); }

  SwitchFsm::Answer read(std::optional<ChainRecord> record) const {
    SwitchFsm::Answer answer;
    answer.yes = answer.read = true;
    answer.record = std::move(record);
    return answer;
  }
  void serve(SwitchFsm& fsm) const {
    fsm.on_answer(now(0s), read(active()));
    fsm.on_answer(now(0s), {.yes = true});
    fsm.on_answer(now(0s), read(active()));
    ASSERT_TRUE(fsm.serving());
  }
  SwitchFsm::Answer look(Stamp stamp, bool others) const {
    auto answer = read(active());
    answer.stamp = stamp;
    answer.others_reach_it = others;
    return answer;
  }
};

// One client is cut off for an hour, and another one reports that it reaches the store.
TEST_F(SwitchFsmTest, OneClientsOutageSwitchesNothingWhileAnotherReachesTheStore) {
  for (const bool alone : {false, true}) {
    SwitchFsm fsm = make({.alone = alone});
    serve(fsm);
    for (auto time = 1s; time < 3600s && fsm.serving(); time += 1s) {
      fsm.on_answer(now(time), look(Stamp::kUnreachable, /*others=*/true));
    }
    EXPECT_EQ(fsm.serving(), !alone) << "the mutant is noticed";
  }
}

TEST_F(SwitchFsmTest, AnOutageForEverybodySwitchesAfterPatienceAndNotSoonAfterASwitch) {
  SwitchFsm fsm = make();
  serve(fsm);
  auto time = 1s;
  for (; time < 60s && fsm.serving(); time += 1s) {
    fsm.on_answer(now(time), look(Stamp::kUnreachable, /*others=*/false));
  }
  EXPECT_EQ(time, 21s) << "the record must be settled";
  EXPECT_EQ(fsm.phase(), Phase::kClaim);
  fsm.on_answer(now(time), {.yes = true});
  fsm.on_answer(now(time), read(active()));
  const auto mark = fsm.next(50);
  EXPECT_EQ(mark.phase, Phase::kMark);
  EXPECT_EQ(mark.record.active, 1U);
  EXPECT_EQ(mark.record.epoch, 101U) << "above the last, though the wall clock is behind";
  EXPECT_EQ(mark.record.last, 100U);
  EXPECT_TRUE(mark.record.draining);
}

TEST_F(SwitchFsmTest, AnEpochIsAtLeastTheWallClock) {
  SwitchFsm fsm = make();
  fsm.on_answer(now(0s), read(std::nullopt));
  fsm.on_answer(now(0s), {.yes = true});
  fsm.on_answer(now(0s), read(std::nullopt));
  EXPECT_EQ(fsm.next(1'700'000'000).record.epoch, 1'700'000'000U);
}

TEST_F(SwitchFsmTest, AStoreThatIsBackIsNotReturnedToUntilAnOperatorSaysSo) {
  SwitchFsm fsm = make();
  serve(fsm);
  fsm.on_answer(now(1s), look(Stamp::kOurs, true));
  EXPECT_TRUE(fsm.serving());
  fsm.order(1);
  fsm.on_answer(now(2s), look(Stamp::kOurs, true));
  EXPECT_EQ(fsm.phase(), Phase::kClaim);
}

TEST_F(SwitchFsmTest, AForeignStampStopsUseAndIsNotOverwritten) {
  SwitchFsm fsm = make();
  serve(fsm);
  fsm.on_answer(now(1s), look(Stamp::kForeign, false));
  EXPECT_TRUE(fsm.foreign());
  EXPECT_EQ(fsm.phase(), Phase::kServe);
}

}  // namespace
}  // namespace holdfast::stores::failover
