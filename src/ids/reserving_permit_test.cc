#include "src/ids/reserving_permit.h"

#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "src/ids/fake_clock.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Layout twitter_bits() { return *Layout::parse("twitter"); }

// A store of one worker, with what a write to it does.
struct Shelf {
  ReservingPermit::Bounds kept;
  enum class Write { kWorks, kIsLost, kIsAppliedAndUnknown } write = Write::kWorks;
};

class ShelfPermit final : public ReservingPermit {
 public:
  ShelfPermit(Shelf& shelf, FakeClock& clock)
      : ReservingPermit(twitter_bits(),
                        {.step = seconds(10),
                         .small = seconds(1),
                         .forward_at_most = seconds(60),
                         .clock = &clock},
                        shelf.kept),
        shelf_(shelf) {}
  ~ShelfPermit() override { stop(); }
  IdGuarantees guarantees() const override { return {.unique_by = UniqueBy::kLease}; }

  bool killed = false;

 private:
  Result<void> write(const Bounds& next) override HOLDFAST_REQUIRES(mutex_) {
    if (killed) return Error(Errc::kClosed, "the process was killed");
    if (shelf_.write != Shelf::Write::kIsLost) shelf_.kept = next;
    if (shelf_.write == Shelf::Write::kWorks) return {};
    return Error(Errc::kOutcomeUnknown, "no answer came");
  }

  Shelf& shelf_;
};

class ReservingPermitTest : public ::testing::Test {
 protected:
  // A process that takes the worker; a kill leaves it as it is.
  std::unique_ptr<Snowflake> take() {
    const std::int64_t above = shelf_.kept.reserved_until - 1;
    permit_ = std::make_shared<ShelfPermit>(shelf_, clock_);
    EXPECT_TRUE(permit_->ended(std::max(above + 1, twitter_bits().unit_of(clock_.wall()))));
    auto made = Snowflake::make({.layout = twitter_bits(),
                                 .worker = 1,
                                 .policy = ClockPolicy::step_sequence(1'024),
                                 .start_above = above,
                                 .rounds = shelf_.kept.rounds,
                                 .permit = permit_,
                                 .clock = &clock_});
    EXPECT_TRUE(made) << made.error();
    return *std::move(made);
  }
  // One each millisecond.
  void give(Snowflake& ids, int count) {
    for (int i = 0; i < count; ++i) {
      clock_.pass(milliseconds(1));
      const auto id = ids.next();
      ASSERT_TRUE(id) << id.error();
      EXPECT_TRUE(given_.insert(id->number()).second) << "given before: " << id->number();
    }
  }

  FakeClock clock_{kNow};
  Shelf shelf_{{0, Rounds{0, std::vector<std::int64_t>(4, -1)}}};
  std::shared_ptr<ShelfPermit> permit_;
  std::set<std::uint64_t> given_;
};

TEST_F(ReservingPermitTest, ABoundCountsOnlyWhenItIsKept) {
  const auto ids = take();
  const std::int64_t before = permit_->reserved_until;
  shelf_.write = Shelf::Write::kIsLost;
  EXPECT_FALSE(permit_->ended(before));
  EXPECT_EQ(permit_->reserved_until, before);
  shelf_.write = Shelf::Write::kWorks;
  EXPECT_TRUE(permit_->ended(before));
  EXPECT_GT(permit_->reserved_until, before);
  EXPECT_EQ(shelf_.kept.reserved_until, permit_->reserved_until);
}

TEST_F(ReservingPermitTest, ARaisedBoundKeepsTheRounds) {
  const auto ids = take();
  give(*ids, 10);
  clock_.step(-milliseconds(500));
  give(*ids, 10);
  ASSERT_EQ(shelf_.kept.rounds->current, 1U);
  ASSERT_TRUE(permit_->ended(permit_->reserved_until));
  EXPECT_EQ(shelf_.kept.rounds->current, 1U);
  EXPECT_GT(shelf_.kept.rounds->used_up_to[0], 0);
}

TEST_F(ReservingPermitTest, AJumpForwardIsReservedAsFarAsItIsBelieved) {
  const auto ids = take();
  clock_.pass(seconds(15));
  ASSERT_TRUE(ids->next());
  clock_.step(std::chrono::hours(2));
  permit_->look_ahead();
  EXPECT_EQ(permit_->reserved_until, permit_->come_to + 60'000 + 20'000) << "in milliseconds";
}

// The answer about a new round is lost, the clock comes back, and the generator goes on in the old
// round. The next process must not believe that the old round ended where it was to be left.
TEST_F(ReservingPermitTest, ARoundThatWasKeptUnknownRepeatsNothing) {
  for (const auto write : {Shelf::Write::kIsAppliedAndUnknown, Shelf::Write::kIsLost}) {
    const auto killed = take();
    give(*killed, 10);
    clock_.step(-milliseconds(500));
    shelf_.write = write;
    EXPECT_FALSE(killed->next());
    clock_.step(milliseconds(500));
    give(*killed, 300);
    permit_->killed = true;
    clock_.step(-milliseconds(300));
    shelf_.write = Shelf::Write::kWorks;
    const auto next = take();
    give(*next, 300);
    clock_.pass(seconds(60));
  }
}

}  // namespace
}  // namespace holdfast::ids
