// How answers come: once, on the loop, in time; and what closing does.
#include <atomic>
#include <future>

#include "tests/conformance/harness.h"

namespace holdfast::testing {

// The harness checks at every call that the completion is not inline and does not come twice.
TEST_P(CompletionConformance, ManyRequestsInFlightAreEachAnsweredOnce) {
  HOLDFAST_NEEDS_MANY_LOCKS();
  std::vector<std::future<Result<AcquisitionState>>> answers;
  for (int i = 0; i < 200; ++i) {
    answers.push_back(client().start_acquire({"in-flight/" + std::to_string(i % 50), fresh()}));
  }
  int held = 0;
  for (auto& answer : answers) {
    ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
    const auto result = answer.get();
    ASSERT_TRUE(result) << result.error().message();
    if (result->status == AcquisitionStatus::kHeld) ++held;
  }
  EXPECT_EQ(held, 50);
}

TEST_P(CompletionConformance, RequestsOfOneClientTakeEffectInTheirOrder) {
  HOLDFAST_NEEDS(promised().fair, "grants in no order");
  std::vector<AcquisitionId> ids;
  std::vector<std::future<Result<AcquisitionState>>> answers;
  for (int i = 0; i < 30; ++i) {
    ids.push_back(fresh());
    answers.push_back(client().start_acquire({"orders", ids.back()}));
  }
  for (std::uint32_t i = 0; i < 30; ++i) {
    ASSERT_EQ(answers[i].wait_for(kPatience), std::future_status::ready);
    const auto result = answers[i].get();
    ASSERT_TRUE(i == 0 ? holds(result) : waits(result));
    if (i > 0) {
      EXPECT_EQ(result->ahead, i - 1);
    }
  }
}

TEST_P(CompletionConformance, ClosingAnswersWhatIsUnderWay) {
  auto held_up = client().loop().hold_up();
  std::vector<std::future<Result<AcquisitionState>>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(client().start_acquire({"orders", fresh()}));
  std::thread closer([&] { client().close(); });
  held_up.reset();
  closer.join();
  for (auto& answer : answers) {
    ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
    const auto result = answer.get();
    if (!result) {
      EXPECT_EQ(result.error().code(), Errc::kClosed) << result.error().message();
    }
  }
}

TEST_P(CompletionConformance, AfterCloseEverythingAnswersClosed) {
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", id})));
  client().close();
  EXPECT_TRUE(fails(client().acquire({"orders", fresh()}), Errc::kClosed));
  EXPECT_TRUE(fails(client().renew("orders", id, 1), Errc::kClosed));  // The batch or its item.
  EXPECT_TRUE(fails(client().release("orders", id), Errc::kClosed));
  EXPECT_TRUE(fails(client().cancel("orders", id), Errc::kClosed));
  EXPECT_TRUE(fails(client().downgrade("orders", id), Errc::kClosed));
  EXPECT_TRUE(fails(client().inspect("orders"), Errc::kClosed));
  EXPECT_TRUE(fails(client().list(""), Errc::kClosed));
  EXPECT_TRUE(fails(client().break_lock("orders", {0, 1}), Errc::kClosed));
  EXPECT_TRUE(fails(client().set_value("orders", id, "v"), Errc::kClosed));
  EXPECT_TRUE(fails(client().get_value("orders"), Errc::kClosed));
  EXPECT_TRUE(fails(client().resize("orders", id, 2), Errc::kClosed));
  EXPECT_TRUE(fails(client().probe(), Errc::kClosed));
}

TEST_P(CompletionConformance, ClosingOneClientDoesNotDisturbAnother) {
  const auto id = fresh();
  const auto theirs = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", id})));
  ASSERT_TRUE(holds(client("bob").acquire({"invoices", theirs})));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", fresh()})));
  client("bob").close();
  EXPECT_TRUE(holds(client().renew("orders", id, 1)));
  EXPECT_TRUE(ends(client().release("orders", id), EndStatus::kReleased));
}

TEST_P(CompletionConformance, TheInlineFormIsTheSameOperation) {
  const Request request("orders", fresh());
  const auto grant = client().acquire_inline(request);
  HOLDFAST_NEEDS(grant.has_value(), "no inline form");
  ASSERT_TRUE(holds(*grant));
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("orders", fresh()).no_wait())));
  const auto again = client().acquire(request);
  ASSERT_TRUE(holds(again));
  EXPECT_EQ(again->token, (*grant)->token);
  const auto ended = client().release_inline("orders", request.id);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ends(*ended, EndStatus::kReleased));
  const auto twice = client().release_inline("orders", request.id);
  ASSERT_TRUE(twice);
  EXPECT_TRUE(ends(*twice, EndStatus::kGone));
}

TEST_P(CompletionConformance, AnInlineReleaseHandsOn) {
  const Request request("orders", fresh());
  const auto waiter = fresh();
  const auto grant = client().acquire_inline(request);
  HOLDFAST_NEEDS(grant.has_value(), "no inline form");
  ASSERT_TRUE(holds(*grant));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  const auto ended = client().release_inline("orders", request.id);
  ASSERT_TRUE(ended && *ended);
  EXPECT_TRUE(client("bob").inbox().next(waiter));
  EXPECT_TRUE(holds(client("bob").renew("orders", waiter, 1)));
}

namespace {

// A push that has the grant in it says all. To ask all the same takes a while where leases are
// those of a session: a renewal right behind a grant is answered once there is more to tell.
bool told(const Push& push) { return push.kind == Push::Kind::kGranted; }

}  // namespace

// A handoff between two clients, on the store's own clock: the waiter hears of it by itself.
TEST_P(LiveConformance, AReleaseReachesTheWaiterWithinASecond) {
  auto& alice = client();
  auto& bob = client("bob");
  for (int round = 0; round < 20; ++round) {
    const auto holder = fresh();
    const auto waiter = fresh();
    const auto asked = alice.acquire({"orders", holder});
    ASSERT_TRUE(holds(asked) || (!site_->decides_at_once() && alice.inbox().next(holder, 1s)));
    ASSERT_TRUE(waits(bob.acquire({"orders", waiter})));
    ASSERT_TRUE(ends(alice.release("orders", holder), EndStatus::kReleased));
    const auto push = bob.inbox().next(waiter, 1s);
    ASSERT_TRUE(push) << "round " << round;
    ASSERT_TRUE(holds(told(*push) ? push->state : bob.renew("orders", waiter, 1)));
    ASSERT_TRUE(ends(bob.release("orders", waiter), EndStatus::kReleased));
  }
}

// Threads of several clients count under one lock, by their pushes alone.
TEST_P(LiveConformance, ThreadsOfManyClientsCountUnderOneLock) {
  constexpr int kClients = 3;
  constexpr int kRounds = 40;
  const bool fenced = promised().fenced;
  int counter = 0;  // Guarded by the lock under test and nothing else.
  std::atomic<int> inside{0};
  std::atomic<std::uint64_t> last_token{0};
  std::vector<Client*> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(&client("c" + std::to_string(i)));
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      Client& mine = *clients[static_cast<std::size_t>(i)];
      for (int round = 0; round < kRounds; ++round) {
        const AcquisitionId id{static_cast<std::uint64_t>(100 + i),
                               static_cast<std::uint64_t>(round + 1)};
        auto state = mine.acquire({"counter", id});
        std::uint64_t beat = 0;
        while (state && state->status == AcquisitionStatus::kWaiting) {
          const auto push = mine.inbox().next(id, 1000ms);
          state = push && told(*push) ? push->state : mine.renew("counter", id, ++beat);
        }
        ASSERT_TRUE(holds(state));
        EXPECT_EQ(inside.fetch_add(1), 0);
        const std::uint64_t before = last_token.exchange(state->token.counter);
        if (fenced) {
          EXPECT_GT(state->token.counter, before);
        }
        ++counter;
        inside.fetch_sub(1);
        ASSERT_TRUE(ends(mine.release("counter", id), EndStatus::kReleased));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter, kClients * kRounds);
}

}  // namespace holdfast::testing
