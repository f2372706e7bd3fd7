// Several locks in one step, on a store whose answers come as the test says.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "src/port/test_unasked_store.h"
#include "src/session/core.h"

namespace holdfast::session {
namespace {

using namespace std::chrono_literals;
using Requests = std::vector<port::AcquireRequest>;
using Grants = port::Store::Grants;

constexpr auto kAnswerPatience = 60s;

struct Answers {
  std::mutex mutex;
  std::condition_variable changed;
  bool multi = true;
  bool here = true;  // The first request is answered on the caller's thread.
  std::deque<std::function<Result<Grants>(const Requests&)>> next;
  std::vector<Requests> asked;
  std::multiset<std::uint64_t> released;  // By issue.
};
Answers* answers = nullptr;

Result<Grants> says_all_held(const Requests& requests) {
  std::vector<port::AcquisitionState> states;
  for (const port::AcquireRequest& request : requests) {
    states.push_back({port::AcquisitionStatus::kHeld, {0, request.issue}, 0, request.ttl, 0, {}});
  }
  return Grants(std::move(states));
}
Result<Grants> says_not_free(const Requests&) { return Grants(); }
Result<Grants> says_unknown(const Requests&) { return Error(Errc::kOutcomeUnknown, "no answer"); }
Result<Grants> says_unavailable(const Requests&) { return Error(Errc::kUnavailable, "not sent"); }

class AnsweringStore final : public port::UnaskedStore {
 public:
  explicit AnsweringStore(port::Loop& loop) : loop_(loop) {}

  Guarantees guarantees() const override {
    Guarantees promised;
    promised.multi = answers->multi;
    return promised;
  }
  std::optional<Result<Grants>> try_acquire_all_inline(const Requests& requests) override {
    if (!answers->here) return std::nullopt;
    return answer(requests);
  }
  void try_acquire_all(Requests requests, port::Done<Grants> done) override {
    loop_.post([requests, done] { done(answer(requests)); });
  }
  void release(port::AcquisitionRequest request, port::Done<port::EndStatus> done) override {
    const std::lock_guard lock(answers->mutex);
    answers->released.insert(request.issue);
    answers->changed.notify_all();
    loop_.post([done] { done(port::EndStatus::kReleased); });
  }
  void renew(std::vector<port::RenewItem> items, base::BootInstant,
             port::Done<std::vector<Result<port::AcquisitionState>>> done) override {
    std::vector<Result<port::AcquisitionState>> results;
    results.reserve(items.size());
    for (const port::RenewItem& item : items) {
      results.emplace_back(port::AcquisitionState{
          port::AcquisitionStatus::kHeld, item.token, item.seq, item.ttl, 0, {}});
    }
    loop_.post([done, results] { done(results); });
  }

 private:
  static Result<Grants> answer(const Requests& requests) {
    std::function<Result<Grants>(const Requests&)> how;
    {
      const std::lock_guard lock(answers->mutex);
      answers->asked.push_back(requests);
      how = answers->next.empty() ? &says_not_free : answers->next.front();
      if (!answers->next.empty()) answers->next.pop_front();
    }
    return how(requests);
  }

  port::Loop& loop_;
};

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is the registry's.
Result<std::unique_ptr<port::Store>> make_answering(port::StoreUrl, const port::StoreContext& how) {
  return std::unique_ptr<port::Store>(std::make_unique<AnsweringStore>(*how.loop));
}

class CoreMultiTest : public ::testing::TestWithParam<bool> {
 protected:
  CoreMultiTest() {
    answers = &answers_;
    answers_.here = GetParam();
    core_ = Core::make(&make_answering, {}, CoreOptions{"answering:", {}, {}}).value();
  }
  ~CoreMultiTest() override { EXPECT_TRUE(core_->close(kAnswerPatience)); }

  Result<Core::Multi> take(std::chrono::milliseconds ttl = 30s) {
    AcquireOptions options;
    options.ttl = ttl;
    return core_->try_acquire_all({{"a", Mode::exclusive()}, {"b", Mode::shared()}}, options);
  }
  void will(std::initializer_list<std::function<Result<Grants>(const Requests&)>> next) {
    answers_.next.assign(next);
  }
  // Everything that was asked for under these numbers is given back.
  bool are_released(const Requests& requests) {
    std::unique_lock lock(answers_.mutex);
    return answers_.changed.wait_for(lock, kAnswerPatience, [&] {
      return std::all_of(requests.begin(), requests.end(), [&](const auto& request) {
        return answers_.released.contains(request.issue);
      });
    });
  }
  bool is_closed() {
    const auto refused = core_->acquire("", Mode::exclusive(), {}, /*may_wait=*/false);
    return !refused && refused.error().code() == Errc::kClosed;
  }
  bool nothing_is_released() {
    const std::lock_guard lock(answers_.mutex);
    return answers_.released.empty();
  }

  Answers answers_;
  std::shared_ptr<Core> core_;
};
INSTANTIATE_TEST_SUITE_P(Forms, CoreMultiTest, ::testing::Bool(), [](const auto& form) {
  return std::string(form.param ? "OnTheCallersThread" : "ByTheLoop");
});

TEST_P(CoreMultiTest, AllGrantsAreLeases) {
  will({&says_all_held});
  const auto got = take();
  ASSERT_TRUE(got && *got);
  ASSERT_EQ((*got)->size(), 2U);
  for (const auto& acquisition : **got) EXPECT_EQ(acquisition->state.load(), LeaseState::kHeld);
  EXPECT_EQ(answers_.asked.front()[0].name, "a");
  EXPECT_FALSE(answers_.asked.front()[0].may_wait);
  EXPECT_LT(answers_.asked.front()[0].issue, answers_.asked.front()[1].issue);
  for (const auto& released : core_->release_all(**got)) EXPECT_TRUE(released);
  EXPECT_TRUE(are_released(answers_.asked.front()));
}

TEST_P(CoreMultiTest, AStoreThatCannotIsNotAsked) {
  answers_.multi = false;
  const auto got = take();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Errc::kUnsupported);
  EXPECT_TRUE(answers_.asked.empty());
}

TEST_P(CoreMultiTest, ALostAnswerIsAskedForAgainAndCountsFromTheFirstSend) {
  const auto late = [](const Requests& requests) {
    std::this_thread::sleep_for(1s);
    return says_all_held(requests);
  };
  BootInstant first_answered{};
  const auto first = [&](const Requests& requests) {
    first_answered = base::BootClock::now();
    return says_unknown(requests);
  };
  will({first, late});
  const auto got = take(10s);
  ASSERT_TRUE(got && *got);
  ASSERT_EQ(answers_.asked.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answers_.asked[0][i].id, answers_.asked[1][i].id);
    EXPECT_EQ(answers_.asked[0][i].issue, answers_.asked[1][i].issue);
  }
  const std::chrono::nanoseconds latest = (first_answered + 10s).time_since_epoch();
  EXPECT_LT((**got)[0]->deadline_ns.load(), latest.count());
  EXPECT_TRUE(nothing_is_released());
}

TEST_P(CoreMultiTest, WithoutAnAnswerAllIsGivenBack) {
  will({&says_unknown, &says_unknown, &says_unknown});
  const auto got = take();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Errc::kOutcomeUnknown);
  EXPECT_TRUE(are_released(answers_.asked.front()));
}

TEST_P(CoreMultiTest, WhatMayHaveBeenTakenBeforeARefusalIsGivenBack) {
  will({&says_unknown, &says_not_free});
  const auto got = take();
  ASSERT_TRUE(got);
  EXPECT_FALSE(*got);
  EXPECT_TRUE(are_released(answers_.asked.front()));
}

TEST_P(CoreMultiTest, WhatWasSurelyNotTakenIsNotGivenBack) {
  will({&says_unavailable});
  const auto got = take();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Errc::kUnavailable);
  EXPECT_EQ(answers_.asked.size(), 1U);
  EXPECT_TRUE(nothing_is_released());
}

TEST_P(CoreMultiTest, AnAnswerThatComesTooLateHoldsNothing) {
  will({[](const Requests& requests) {
    std::this_thread::sleep_for(400ms);
    return says_all_held(requests);
  }});
  const auto got = take(300ms);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Errc::kUnavailable);
  EXPECT_TRUE(are_released(answers_.asked.front()));
}

TEST_P(CoreMultiTest, AClientThatIsClosedMeanwhileGivesBack) {
  std::thread closer;
  will({[&](const Requests& requests) {
    closer = std::thread([&] { EXPECT_TRUE(core_->close(kAnswerPatience)); });
    while (!is_closed()) std::this_thread::sleep_for(1ms);
    return says_all_held(requests);
  }});
  const auto got = take();
  closer.join();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Errc::kClosed);
  EXPECT_TRUE(are_released(answers_.asked.front()));
}

}  // namespace
}  // namespace holdfast::session
