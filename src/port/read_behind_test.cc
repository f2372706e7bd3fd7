#include "src/port/read_behind.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

// Answers what was asked for when and how the test says.
class ReadBehindTest : public ::testing::Test {
 protected:
  AcquireCall acquire() {
    return [this](Done<AcquisitionState> done) { acquires_.push_back(std::move(done)); };
  }
  ReadCall read() {
    return [this](Done<std::string> done) { reads_.push_back(std::move(done)); };
  }
  Done<Store::StateAndValue> done() {
    return [this](Result<Store::StateAndValue> both) { told_.push_back(std::move(both)); };
  }
  static AcquisitionState held() { return {.status = AcquisitionStatus::kHeld}; }

  std::vector<Done<AcquisitionState>> acquires_;
  std::vector<Done<std::string>> reads_;
  std::vector<Result<Store::StateAndValue>> told_;
};

TEST_F(ReadBehindTest, AReadThatIsAnsweredAfterTheAcquisitionCounts) {
  acquire_and_read_behind(acquire(), read(), done());
  ASSERT_EQ(acquires_.size() + reads_.size(), 2U) << "both are sent at once";
  acquires_[0](held());
  EXPECT_TRUE(told_.empty());
  reads_[0](std::string("stamp"));
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0]->value, "stamp");
}

// Its request was sent again after the read, so it may have come to a server that has forgotten.
TEST_F(ReadBehindTest, AReadThatIsAnsweredBeforeItIsRepeated) {
  acquire_and_read_behind(acquire(), read(), done());
  reads_[0](std::string("old"));
  EXPECT_TRUE(told_.empty());
  acquires_[0](held());
  ASSERT_EQ(reads_.size(), 2U);
  reads_[1](std::string("new"));
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0]->value, "new");
}

TEST_F(ReadBehindTest, WithoutAnAcquisitionNothingIsRepeated) {
  acquire_and_read_behind(acquire(), read(), done());
  reads_[0](std::string("stamp"));
  acquires_[0](AcquisitionState{.status = AcquisitionStatus::kBusy});
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0]->state.status, AcquisitionStatus::kBusy);
  acquire_and_read_behind(acquire(), read(), done());
  acquires_[1](Error(Errc::kUnavailable, "away"));
  reads_[1](Error(Errc::kUnavailable, "away"));
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_EQ(told_[1].error().code(), Errc::kUnavailable);
  EXPECT_EQ(reads_.size(), 2U);
}

TEST_F(ReadBehindTest, AFailedReadLeavesTheOutcomeUnknown) {
  acquire_and_read_behind(acquire(), read(), done());
  acquires_[0](held());
  reads_[0](Error(Errc::kUnavailable, "away"));
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0].error().code(), Errc::kOutcomeUnknown);
}

TEST_F(ReadBehindTest, OneAfterTheOtherWhereTheOrderIsNotTheChannels) {
  acquire_then_read(acquire(), read(), done());
  EXPECT_TRUE(reads_.empty());
  acquires_[0](held());
  reads_.at(0)(std::string("stamp"));
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0]->value, "stamp");
  acquire_then_read(acquire(), read(), done());
  acquires_[1](AcquisitionState{.status = AcquisitionStatus::kGone});
  EXPECT_EQ(told_.size(), 2U);
  EXPECT_EQ(reads_.size(), 1U);
}

}  // namespace
}  // namespace holdfast::port
