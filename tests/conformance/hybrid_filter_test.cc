// Filters that lie or are away: they change how often the arbiter is asked, and nothing else.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "src/stores/hybrid/hybrid_store.h"
#include "src/stores/memory/memory_store.h"
#include "tests/conformance/harness.h"

namespace holdfast::testing {
namespace {

enum class Lie { kPassesAll, kBusyForEver, kForgetsAll, kSilent, kAway };

Lie lie = Lie::kPassesAll;
std::atomic<int> asked{0};

// Answers every request in the same way.
class LyingStore final : public port::Store {
 public:
  explicit LyingStore(const port::StoreContext& context) : loop_(*context.loop) {}

  Guarantees guarantees() const override { return {}; }
  void acquire(port::AcquireRequest request, port::Done<AcquisitionState> done) override {
    ++asked;
    loop_.post([done = std::move(done), wait = request.may_wait] { done(answer(wait)); });
  }
  void renew(std::vector<port::RenewItem> items, base::BootInstant,
             port::Done<std::vector<Result<AcquisitionState>>> done) override {
    std::vector<Result<AcquisitionState>> all(items.size(), answer(/*wait=*/true));
    loop_.post([done = std::move(done), all = std::move(all)]() mutable { done(std::move(all)); });
  }
  void release(port::AcquisitionRequest, port::Done<EndStatus> done) override { gone(done); }
  void cancel(port::AcquisitionRequest, port::Done<EndStatus> done) override { gone(done); }
  void downgrade(port::AcquisitionRequest, port::Done<AcquisitionState>) override { FAIL(); }
  void inspect(std::string, base::BootInstant, port::Done<std::optional<LockInfo>>) override {
    FAIL() << "the filter was asked who holds";
  }
  void list(std::string, std::size_t, base::BootInstant,
            port::Done<std::vector<LockInfo>>) override {
    FAIL() << "the filter was asked for a list";
  }
  void break_lock(port::BreakRequest, port::Done<bool>) override {
    FAIL() << "the filter was asked to break a lock";
  }
  void probe(base::BootInstant, port::Done<std::vector<Finding>> done) override {
    loop_.post([done = std::move(done)] { done(away()); });
  }
  void set_value(port::AcquisitionRequest, std::string, port::Done<bool>) override {
    FAIL() << "the filter was given a value";
  }
  void get_value(std::string, base::BootInstant, port::Done<std::string>) override {
    FAIL() << "the filter was asked for a value";
  }
  void resize(port::AcquisitionRequest, std::uint32_t, port::Done<bool>) override { FAIL(); }
  void close(base::BootInstant) override {}
  void abandon_after_fork() noexcept override {}

 private:
  static Error away() { return {Errc::kUnavailable, "it is away"}; }
  static Result<AcquisitionState> answer(bool wait) {
    AcquisitionState state;
    state.token = {0, 1};  // Lower than any real one, and always the same.
    switch (lie) {
      case Lie::kPassesAll: state.status = AcquisitionStatus::kHeld; break;
      case Lie::kBusyForEver:
        state.status = wait ? AcquisitionStatus::kWaiting : AcquisitionStatus::kBusy;
        break;
      case Lie::kForgetsAll: state.status = AcquisitionStatus::kGone; break;
      case Lie::kSilent: return Error(Errc::kOutcomeUnknown, "it has not answered in time");
      case Lie::kAway: return away();
    }
    return state;
  }
  void gone(port::Done<EndStatus>& done) {
    loop_.post([done = std::move(done)] { done(EndStatus::kGone); });
  }

  port::Loop& loop_;
};

class LyingSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    stores::HybridTuning tuning;
    tuning.filter = [](port::StoreUrl,
                       const port::StoreContext& how) -> Result<std::unique_ptr<port::Store>> {
      return std::unique_ptr<port::Store>(std::make_unique<LyingStore>(how));
    };
    tuning.arbiter = &stores::make_memory_store;
    return stores::make_hybrid_store_for_test(
        *port::StoreUrl::parse("hybrid:?filter=memory:f&arbiter=memory:arbiter&patience=60ms"),
        context, std::move(tuning));
  }
  void pass(Duration) override {}
};

class HybridFilterTest : public ::testing::TestWithParam<Lie> {
 protected:
  void SetUp() override {
    lie = GetParam();
    asked = 0;
  }
  LyingSite site_;
};

// V0 and V1: one holder at a time, and tokens that grow.
TEST_P(HybridFilterTest, OneHolderAtATimeAndTokensGrow) {
  constexpr int kClients = 4;
  constexpr int kRounds = 25;
  std::atomic<int> inside{0};
  std::atomic<std::uint64_t> last_token{0};
  int counter = 0;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(site_, "c" + std::to_string(i)));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      Client& mine = *clients[static_cast<std::size_t>(i)];
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        const AcquisitionId id{static_cast<std::uint64_t>(100 + i), round};
        auto state = mine.acquire({"counter", id});
        for (std::uint64_t beat = 1; state && state->status == AcquisitionStatus::kWaiting;
             ++beat) {
          const auto push = mine.inbox().next(id, 500ms);
          state = push && push->kind == Push::Kind::kGranted ? push->state
                                                             : mine.renew("counter", id, beat);
        }
        ASSERT_TRUE(state) << state.error().message();
        ASSERT_EQ(state->status, AcquisitionStatus::kHeld);
        EXPECT_EQ(inside.fetch_add(1), 0);
        EXPECT_GT(state->token.counter, last_token.exchange(state->token.counter));
        ++counter;
        inside.fetch_sub(1);
        ASSERT_TRUE(mine.release("counter", id));
      }
    });
    // One that is told "busy" for ever asks once in its patience: fewer take part.
    if (GetParam() == Lie::kBusyForEver && i == 1) break;
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter, kRounds * static_cast<int>(threads.size()));
  EXPECT_GT(asked.load(), 0);
}

// The lease of a holder goes on, whatever the filter says of it.
TEST_P(HybridFilterTest, AHolderKeepsItsLockAndANewcomerIsTold) {
  Client alice(site_, "alice");
  Client bob(site_, "bob");
  const AcquisitionId held{1, 1};
  auto grant = alice.acquire({"orders", held});
  for (std::uint64_t beat = 1; grant && grant->status == AcquisitionStatus::kWaiting; ++beat) {
    static_cast<void>(alice.inbox().next(held, 500ms));
    grant = alice.renew("orders", held, beat);
  }
  ASSERT_TRUE(grant && grant->status == AcquisitionStatus::kHeld);
  for (std::uint64_t seq = 100; seq < 110; ++seq) {
    const auto again = alice.renew("orders", held, seq);
    ASSERT_TRUE(again && again->status == AcquisitionStatus::kHeld);
    EXPECT_EQ(again->token, grant->token);
  }
  const auto tried = bob.acquire(Request("orders", AcquisitionId{2, 1}).no_wait());
  ASSERT_TRUE(tried);
  EXPECT_EQ(tried->status, AcquisitionStatus::kBusy);
  const auto info = bob.inspect("orders");
  ASSERT_TRUE(info && *info);
  EXPECT_EQ((*info)->holders.size(), 1U);
  const auto free = bob.acquire(Request("free", AcquisitionId{2, 2}).no_wait());
  ASSERT_TRUE(free);
  EXPECT_EQ(free->status, AcquisitionStatus::kHeld) << "the filter's busy is never final";
}

// A crowd that the filter does not hold back: each client has one contender at the arbiter.
TEST_P(HybridFilterTest, EachClientHasOneWaiterAtTheArbiter) {
  constexpr std::uint64_t kEach = 30;
  Client alice(site_, "alice");
  Client bob(site_, "bob");
  Client carol(site_, "carol");
  ASSERT_TRUE(alice.acquire(Request("orders", AcquisitionId{1, 1}).no_wait()));
  for (std::uint64_t i = 0; i < kEach; ++i) {
    ASSERT_TRUE(bob.acquire({"orders", AcquisitionId{2, i + 1}}));
    ASSERT_TRUE(carol.acquire({"orders", AcquisitionId{3, i + 1}}));
  }
  // By then the patience of those at the filter is over.
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::size_t waiters = 0;
  while (waiters < 2 && std::chrono::steady_clock::now() < until) {
    const auto info = alice.inspect("orders");
    ASSERT_TRUE(info && *info);
    waiters = (*info)->waiters.size();
    ASSERT_LE(waiters, 2U) << "one for each client that waits";
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(waiters, 2U);
}

std::string name_of(const ::testing::TestParamInfo<Lie>& each) {
  constexpr const char* kNames[] = {"PassesAll", "BusyForEver", "ForgetsAll", "Silent", "Away"};
  return kNames[static_cast<int>(each.param)];
}

INSTANTIATE_TEST_SUITE_P(Hybrid, HybridFilterTest,
                         ::testing::Values(Lie::kPassesAll, Lie::kBusyForEver, Lie::kForgetsAll,
                                           Lie::kSilent, Lie::kAway),
                         name_of);

}  // namespace
}  // namespace holdfast::testing
