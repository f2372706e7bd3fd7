// The local table, over a server that answers when the test says so.
#include "src/recipes/local_locks.h"

#include <cctype>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <gtest/gtest.h>

namespace holdfast::recipes {
namespace {

using namespace std::chrono_literals;
using machine::AcquisitionId;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

class FakeBackend final : public Backend {
 public:
  Guarantees guarantees() const override {
    Guarantees result;
    result.min_ttl = 15s;
    return result;
  }
  Result<std::string> key_of(const std::string& name) const override {
    std::string key = name;
    for (char& c : key) c = static_cast<char>(std::tolower(c));
    return key;
  }
  void start(Lost, port::Done<bool>) override {}
  void take(Hold hold, machine::OwnerPtr, port::Done<Taken> done) override {
    takes.emplace_back(hold.id, std::move(done));
  }
  void confirm(std::vector<Hold> holds, port::Done<std::vector<Result<bool>>> done) override {
    done(std::vector<Result<bool>>(holds.size(), alive));
  }
  void give_back(Hold hold, port::Done<bool> done) override {
    backs.emplace_back(hold.id, std::move(done));
  }
  void inspect(Hold, port::Done<std::optional<LockInfo>>) override {}
  void probe(port::Done<std::vector<Finding>>) override {}
  void watch(const std::string& key, bool waits) override {
    watched.push_back((waits ? "+" : "-") + key);
  }
  void close() override {}
  void abandon_after_fork() noexcept override {}

  std::vector<std::string> watched;
  std::deque<std::pair<AcquisitionId, port::Done<Taken>>> takes;
  std::deque<std::pair<AcquisitionId, port::Done<bool>>> backs;
  bool alive = true;
};

class LocalLocksTest : public ::testing::Test, public port::Listener, public port::Loop {
 protected:
  void post(port::Task task) override { asio::post(io_, std::move(task)); }
  void on_push(const port::Push& push) override { pushes_.push_back(push); }

  using Answer = std::shared_ptr<std::optional<Result<AcquisitionState>>>;
  Answer acquire(std::uint64_t id, bool may_wait = true, const std::string& name = "a") {
    port::AcquireRequest request;
    request.name = name;
    request.id = {1, id};
    request.may_wait = may_wait;
    request.ttl = request.waiter_ttl = 15s;
    request.deadline = base::BootClock::now() + 5s;
    auto answer = std::make_shared<std::optional<Result<AcquisitionState>>>();
    locks_->acquire(std::move(request),
                    [answer](Result<AcquisitionState> result) { answer->emplace(result); });
    return answer;
  }
  std::optional<EndStatus> end(std::uint64_t id) {
    auto answer = std::make_shared<std::optional<EndStatus>>();
    port::AcquisitionRequest request;
    request.name = "a";
    request.id = {1, id};
    request.deadline = base::BootClock::now() + 5s;
    locks_->end(request, [answer](Result<EndStatus> result) { *answer = *result; });
    if (!*answer && !server_.backs.empty()) give_back_says(true);
    return *answer;
  }
  void take_says(const Result<Taken>& taken) {
    ASSERT_FALSE(server_.takes.empty());
    const auto done = std::move(server_.takes.front().second);
    server_.takes.pop_front();
    done(taken);
  }
  void give_back_says(const Result<bool>& given) {
    ASSERT_FALSE(server_.backs.empty());
    const auto done = std::move(server_.backs.front().second);
    server_.backs.pop_front();
    done(given);
  }
  // Until the first waiter has asked again.
  void await_try() {
    while (server_.takes.empty()) io_.run_one_for(1s);
  }
  static std::optional<AcquisitionStatus> status(const Answer& answer) {
    if (!*answer || !**answer) return std::nullopt;
    return (**answer)->status;
  }
  static Taken yes(std::uint64_t micros = 1000) { return {true, micros}; }

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  FakeBackend server_;
  std::vector<port::Push> pushes_;
  std::shared_ptr<LocalLocks> locks_ = std::make_shared<LocalLocks>(
      server_, port::StoreContext{.loop = this, .listener = this, .owner = "me", .io = &io_});
};

TEST_F(LocalLocksTest, TwoOfOneClientAreNotAtTheServerTogether) {
  const auto first = acquire(1);
  const auto second = acquire(2);
  EXPECT_EQ(server_.takes.size(), 1U);
  EXPECT_FALSE(*second);
  take_says(yes());
  EXPECT_EQ(status(first), AcquisitionStatus::kHeld);
  EXPECT_EQ(status(second), AcquisitionStatus::kWaiting);
  EXPECT_TRUE(server_.takes.empty());
}

TEST_F(LocalLocksTest, NamesOfOneKeyExcludeEachOther) {
  const auto first = acquire(1);
  take_says(yes());
  const auto second = acquire(2, /*may_wait=*/false, "A");
  EXPECT_EQ(status(second), AcquisitionStatus::kBusy);
}

TEST_F(LocalLocksTest, WaitersAskInTheOrderInWhichTheyCameAndAfterTheRelease) {
  acquire(1);
  take_says(yes());
  const auto second = acquire(2);
  const auto third = acquire(3);
  ASSERT_EQ(status(third), AcquisitionStatus::kWaiting);
  EXPECT_EQ((**third)->ahead, 1U);
  EXPECT_EQ(end(1), EndStatus::kReleased);
  ASSERT_EQ(server_.takes.size(), 1U);
  EXPECT_EQ(server_.takes.front().first, (AcquisitionId{1, 2}));
  take_says(yes());
  ASSERT_EQ(pushes_.size(), 1U);
  EXPECT_EQ(pushes_[0].kind, port::Push::Kind::kGranted);
  EXPECT_EQ(pushes_[0].id, (AcquisitionId{1, 2}));
}

TEST_F(LocalLocksTest, OnlyTheFirstWaiterAsksAgainAndANewcomerIsBusy) {
  const auto first = acquire(1);
  const auto second = acquire(2);
  take_says(Taken{});
  EXPECT_EQ(status(first), AcquisitionStatus::kWaiting);
  EXPECT_EQ(status(second), AcquisitionStatus::kWaiting);
  EXPECT_EQ(status(acquire(3, /*may_wait=*/false)), AcquisitionStatus::kBusy);
  for (int i = 0; i < 3; ++i) {
    await_try();
    EXPECT_EQ(server_.takes.size(), 1U);
    EXPECT_EQ(server_.takes.front().first, (AcquisitionId{1, 1}));
    take_says(Taken{});
  }
}

TEST_F(LocalLocksTest, AGrantThatCrossesACancelIsGivenBack) {
  const auto answer = acquire(1);
  EXPECT_EQ(end(1), std::nullopt) << "the server has not said yet";
  EXPECT_EQ(status(answer), AcquisitionStatus::kGone);
  take_says(yes());
  ASSERT_EQ(server_.backs.size(), 1U);
  EXPECT_EQ(server_.backs.front().first, (AcquisitionId{1, 1}));
  const auto next = acquire(2);
  EXPECT_TRUE(server_.takes.empty()) << "the session may still have it";
  give_back_says(true);
  take_says(yes());
  EXPECT_EQ(status(next), AcquisitionStatus::kHeld);
  EXPECT_EQ(status(acquire(1)), AcquisitionStatus::kGone);
}

TEST_F(LocalLocksTest, ATakeInDoubtIsSettledBeforeTheNextOne) {
  const auto first = acquire(1);
  take_says(Error(Errc::kOutcomeUnknown, "lost"));
  EXPECT_EQ((**first).error().code(), Errc::kOutcomeUnknown);
  EXPECT_EQ(status(acquire(1)), AcquisitionStatus::kGone);
  const auto next = acquire(2);
  ASSERT_EQ(server_.backs.size(), 1U);
  EXPECT_TRUE(server_.takes.empty());
  give_back_says(Error(Errc::kOutcomeUnknown, "lost"));
  while (server_.backs.empty()) io_.run_one_for(1s);
  give_back_says(false);
  take_says(yes());
  EXPECT_EQ(status(next), AcquisitionStatus::kHeld);
}

TEST_F(LocalLocksTest, ALossIsToldAndAnswersGone) {
  acquire(1);
  take_says(yes());
  locks_->lost({{1, 1}});
  ASSERT_EQ(pushes_.size(), 1U);
  EXPECT_EQ(pushes_[0].kind, port::Push::Kind::kHint);
  bool gone = false;
  locks_->renew({{"a", {1, 1}, 1, 15s, 5s, {}}}, base::BootClock::now() + 5s,
                [&](const Result<LocalLocks::States>& states) {
                  gone =
                      states && states->at(0) && states->at(0)->status == AcquisitionStatus::kGone;
                });
  EXPECT_TRUE(gone);
  EXPECT_EQ(end(1), EndStatus::kGone);
}

TEST_F(LocalLocksTest, ARenewalThatTheServerDeniesIsALoss) {
  acquire(1);
  take_says(yes());
  server_.alive = false;
  std::optional<AcquisitionStatus> said;
  locks_->renew({{"a", {1, 1}, 1, 15s, 5s, {}}}, base::BootClock::now() + 5s,
                [&](const Result<LocalLocks::States>& states) { said = states->at(0)->status; });
  EXPECT_EQ(said, AcquisitionStatus::kGone);
  const auto next = acquire(2);
  EXPECT_EQ(server_.takes.size(), 1U);
}

TEST_F(LocalLocksTest, TokensGrowAlsoWhenTheServersClockIsSetBack) {
  const auto first = acquire(1);
  take_says(yes(5000));
  end(1);
  const auto second = acquire(2);
  take_says(yes(10));
  EXPECT_GT((**second)->token, (**first)->token);
}

TEST_F(LocalLocksTest, ARequestIsAnsweredByItsDeadlineAndOnClosing) {
  port::AcquireRequest request;
  request.name = "a";
  request.id = {1, 1};
  request.ttl = request.waiter_ttl = 15s;
  request.deadline = base::BootClock::now() + 20ms;
  std::optional<Errc> said;
  locks_->acquire(request,
                  [&](const Result<AcquisitionState>& state) { said = state.error().code(); });
  while (!said) io_.run_one_for(1s);
  EXPECT_EQ(said, Errc::kOutcomeUnknown);
  const auto other = acquire(2, true, "b");
  locks_->close();
  ASSERT_TRUE(*other);
  EXPECT_EQ((**other).error().code(), Errc::kClosed);
  take_says(yes());  // Too late for anybody.
}

TEST_F(LocalLocksTest, WhatOtherProgramsDoNotKnowIsRefused) {
  port::AcquireRequest request;
  request.name = "a";
  request.id = {1, 1};
  request.ttl = request.waiter_ttl = 15s;
  request.mode = port::Mode::shared();
  std::optional<Errc> said;
  const auto done = [&](const Result<AcquisitionState>& state) { said = state.error().code(); };
  locks_->acquire(request, done);
  EXPECT_EQ(said, Errc::kUnsupported);
  request.mode = port::Mode::exclusive();
  request.ttl = 1s;
  locks_->acquire(request, done);
  EXPECT_EQ(said, Errc::kInvalidArgument);
}

TEST_F(LocalLocksTest, AServerThatTellsOfReleasesIsAskedAtOnceAndOnlyWhileSomebodyWaits) {
  const auto tried = acquire(1, /*may_wait=*/false);
  take_says(Taken{});
  EXPECT_TRUE(server_.watched.empty()) << "whoever does not wait needs no news";
  const auto waits = acquire(2);
  take_says(Taken{});
  EXPECT_EQ(server_.watched, std::vector<std::string>{"+a"});
  locks_->freed("a");
  ASSERT_EQ(server_.takes.size(), 1U);
  // The news overtakes the answer that is older.
  locks_->freed("a");
  take_says(Taken{});
  await_try();
  take_says(yes());
  EXPECT_EQ(server_.watched, (std::vector<std::string>{"+a", "-a"}));
  locks_->freed("a");
  EXPECT_TRUE(server_.takes.empty()) << "we hold it";
  EXPECT_EQ(pushes_.size(), 1U);
}

TEST_F(LocalLocksTest, AWaiterThatLeavesEndsTheWatch) {
  const auto waits = acquire(1);
  take_says(Taken{});
  EXPECT_EQ(end(1), EndStatus::kCancelled);
  EXPECT_EQ(server_.watched, (std::vector<std::string>{"+a", "-a"}));
  locks_->freed("a");
  EXPECT_TRUE(server_.takes.empty());
}

TEST_F(LocalLocksTest, WhoeverAsksWhileTheServerIsAskedGetsALaterAnswer) {
  const auto waits = acquire(1);
  take_says(Taken{});
  await_try();
  std::optional<AcquisitionStatus> told;
  locks_->renew({{.name = "a", .id = {1, 1}, .seq = 1, .ttl = 15s, .waiter_ttl = 15s}},
                base::BootClock::now() + 5s,
                [&](const Result<LocalLocks::States>& states) { told = states->at(0)->status; });
  take_says(Taken{});
  EXPECT_FALSE(told) << "this answer may be older than the question";
  ASSERT_EQ(server_.takes.size(), 1U);
  take_says(yes());
  EXPECT_EQ(told, AcquisitionStatus::kHeld);
}

}  // namespace
}  // namespace holdfast::recipes
