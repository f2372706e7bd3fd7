#include <future>
#include <thread>

#include "src/client/registry.h"
#include "src/session/core.h"
#include "tests/async/scenarios.h"
#include "tests/async/stepping_store.h"
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

using session::Core;

// The steps of the store that is made next (a factory is a plain function).
std::shared_ptr<Steps> next_steps;

Result<std::unique_ptr<port::Store>> make_stepping(port::StoreUrl url,
                                                   const port::StoreContext& context) {
  const auto factory = client::find_store(url.scheme);
  if (!factory) return factory.error();
  return SteppingStore::make(
      [&](const port::StoreContext& inner) { return (*factory)(std::move(url), inner); }, context,
      next_steps);
}

// One acquisition of a lock that somebody holds until it is queued, cancelled at event `n`.
struct Attempt {
  explicit Attempt(const std::string& url, int n) {
    next_steps = std::make_shared<Steps>(n, [this] { cancel(); });
    steps = next_steps;
    core = Core::make(&make_stepping, port::StoreUrl::parse(url).value(), {url, {}, {}}).value();
  }

  void start() {
    AcquireOptions options;
    options.ttl = 30s;
    options.on_queued = [this](std::uint32_t) { waiting.set_value(); };
    auto wait = core->acquire("swept", Mode::exclusive(), options, /*may_wait=*/true,
                              [this](const Result<Core::AcquisitionPtr>& got) {
                                EXPECT_EQ(++answers, 1);
                                answer.set_value(got);
                              });
    const std::lock_guard lock(mutex);
    acquisition = std::move(wait);
    if (cancelled && acquisition) core->cancel(acquisition);
  }

  void cancel() {
    const std::lock_guard lock(mutex);
    cancelled = true;
    if (acquisition) core->cancel(acquisition);
  }

  std::shared_ptr<Steps> steps;
  std::shared_ptr<Core> core;
  std::mutex mutex;
  Core::AcquisitionPtr acquisition;
  bool cancelled = false;
  std::atomic<int> answers{0};
  std::promise<void> waiting;
  std::promise<Result<Core::AcquisitionPtr>> answer;
};

// True when it was through before the event came.
bool attempt(const std::string& url, Client& holder, int n, int& cancelled) {
  Lease held = holder.mutex("swept").acquire({.ttl = 30s}).value();
  Attempt attempt(url, n);
  auto answer = attempt.answer.get_future();
  auto waiting = attempt.waiting.get_future();
  attempt.start();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (waiting.wait_for(1ms) != std::future_status::ready &&
         answer.wait_for(0ms) != std::future_status::ready) {
    if (std::chrono::steady_clock::now() > until) break;
  }
  EXPECT_TRUE(held.release());
  EXPECT_EQ(answer.wait_for(kPatience), std::future_status::ready) << "event " << n;
  auto got = answer.get();
  if (got) {
    EXPECT_TRUE(attempt.core->release(*got));
  } else {
    ++cancelled;
    EXPECT_EQ(got.error().code(), Errc::kCancelled) << got.error().message();
  }
  const auto left = holder.inspect("swept");
  EXPECT_TRUE(left) << left.error().message();
  EXPECT_TRUE(!left || !*left || ((*left)->holders.empty() && (*left)->waiters.empty()))
      << "a ticket was left by a wait that was cancelled at event " << n;
  EXPECT_EQ(attempt.answers, 1);
  EXPECT_TRUE(attempt.core->close(kPatience));
  const std::lock_guard lock(attempt.mutex);
  const bool through = got && !attempt.cancelled;
  attempt.acquisition = nullptr;
  got = Error(Errc::kClosed, "");
  return through;
}

}  // namespace

void sweep_cancellation(const std::string& url) {
  Client holder = connect_or_die(url);
  int cancelled = 0;
  int n = 1;
  while (!attempt(url, holder, n, cancelled)) {
    ASSERT_FALSE(::testing::Test::HasFailure());
    ASSERT_LT(++n, 100) << "it never gets through";
  }
  // Before it was queued, while it was, and while the grant was on its way.
  EXPECT_GE(cancelled, 4);
  EXPECT_GE(n, 6);
}

}  // namespace holdfast::testing
