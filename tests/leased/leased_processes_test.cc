// Processes that lease worker numbers from one store, and are killed, or stopped beyond their
// lease, at any moment.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/ids/leased_workers.h"
#include "tests/leased/crowd.h"
#include "tests/leased/fixture.h"
#include "tests/support/eventually.h"

namespace holdfast::ids {
namespace {

using holdfast::testing::Crowd;
using holdfast::testing::give;
using holdfast::testing::Giver;
using holdfast::testing::Givers;
using holdfast::testing::grow;

class LeasedProcessesTest : public LeasedTest {};

TEST_P(LeasedProcessesTest, ThirtyTwoThatAreKilledOrStoppedBeyondTheirLeaseRepeatNothing) {
  constexpr std::size_t kProcesses = 32;
  constexpr std::size_t kStopped = 6;
  const std::string url = short_leases();
  ASSERT_TRUE(LeasedWorkers::create(url, kName, spec_of(3 * kProcesses)));
  Crowd crowd("workers", url, kName, kTtl);
  const Givers first = crowd.start_all(kProcesses);
  ASSERT_TRUE(give(first, 300));
  const Givers stopped(first.begin(), first.begin() + kStopped);
  ASSERT_TRUE(stop_between_writes(stopped, url));
  for (std::size_t i = kStopped; i < kProcesses; ++i) first[i]->process().kill9();

  ASSERT_TRUE(become_free(url, kName, workers_of(first)));
  const Givers second = crowd.start_all(kProcesses);
  ASSERT_TRUE(give(second, 300));
  // Others have these numbers now, or else nobody could repeat anything.
  EXPECT_THAT(workers_of(second), ::testing::Contains(::testing::AnyOfArray(workers_of(stopped))));
  for (Giver* giver : stopped) giver->process().resume();
  for (std::size_t i = 0; i < kStopped; ++i) second[i]->process().kill9();
  const Givers third = crowd.start_all(kStopped);
  ASSERT_TRUE(give(stopped, 100));
  ASSERT_TRUE(give(third, 100));

  EXPECT_TRUE(crowd.end());
  EXPECT_TRUE(crowd.all_differ());
  for (const Giver* giver : stopped) EXPECT_TRUE(grow(giver->ids()));
}

TEST_P(LeasedProcessesTest, AStoreThatIsAwayBeyondTheLeasesEndsIdsAndRepeatsNone) {
  if (!place_->has_server()) GTEST_SKIP() << "no server";
  constexpr std::size_t kProcesses = 4;
  const std::string url = short_leases();
  ASSERT_TRUE(LeasedWorkers::create(url, kName, spec_of(3 * kProcesses)));
  Crowd crowd("workers", url, kName, kTtl);
  const Givers givers = crowd.start_all(kProcesses);
  ASSERT_TRUE(give(givers, 300));
  std::vector<std::size_t> said;
  for (const Giver* giver : givers) said.push_back(giver->said("\n"));
  place_->pause();
  for (std::size_t i = 0; i < kProcesses; ++i) {  // Its next line is the reason to give none.
    EXPECT_TRUE(says(*givers[i], "\n", said[i] + 1));
  }
  place_->resume();
  ASSERT_TRUE(give(givers, 300));
  if (place_->forgets().empty()) {
    place_->kill_and_start();
    ASSERT_TRUE(give(givers, 300));
  }
  EXPECT_TRUE(crowd.end());
  EXPECT_TRUE(crowd.all_differ());
  for (const Giver* giver : givers) EXPECT_TRUE(grow(giver->ids()));
}

TEST_P(LeasedProcessesTest, ANumberIsFreeAfterACleanEndAndAllTakenIsAnErrorOfItsOwn) {
  const std::string url = place_->url();
  ASSERT_TRUE(LeasedWorkers::create(url, kName, spec_of(2)));
  EXPECT_EQ(LeasedWorkers::create(url, kName, spec_of(2)).error().code(), Errc::kStoreInUse);
  const auto workers = LeasedWorkers::open(url, kName, options());
  ASSERT_TRUE(workers) << workers.error();
  auto first = workers->take();
  const auto second = workers->take();
  ASSERT_TRUE(first && second);
  EXPECT_THAT((*first)->guarantees().forgets, ::testing::HasSubstr(place_->forgets()));
  EXPECT_EQ(workers->take().error().code(), Errc::kQueueFull);
  const auto id = (*first)->next();
  ASSERT_TRUE(id) << id.error();
  const std::uint64_t worker = (*first)->worker();
  *first = nullptr;
  const auto shown = workers->workers();
  ASSERT_TRUE(shown) << shown.error();
  EXPECT_FALSE((*shown)[worker].held);
  EXPECT_TRUE((*shown)[1 - worker].held);
  EXPECT_EQ((*shown)[worker].pid, ::getpid());
  const auto again = workers->take();
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ((*again)->worker(), worker);
  EXPECT_GT((*again)->next()->number(), id->number());
}

TEST_P(LeasedProcessesTest, IdsGoOnUnderAnotherNumberAfterALoss) {
  const std::string url = place_->url();
  ASSERT_TRUE(LeasedWorkers::create(url, kName, spec_of(4)));
  const auto workers = LeasedWorkers::open(url, kName, options());
  ASSERT_TRUE(workers) << workers.error();
  const auto opened = workers->ids();
  ASSERT_TRUE(opened) << opened.error();
  LeasedIds& ids = **opened;
  std::uint64_t last = ids.next()->number();
  const std::uint64_t first = ids.worker();
  auto client = Client::connect(url);
  ASSERT_TRUE(client) << client.error();
  const std::string lock = std::string("holdfast-ids/") + kName + "/" + std::to_string(first);
  const auto seen = client->inspect(lock);
  ASSERT_TRUE(seen && *seen && (*seen)->holders.size() == 1);
  ASSERT_TRUE(client->break_lock(lock, (*seen)->holders[0].token, "a test"));
  const auto other = workers->take();  // It has the number now.
  ASSERT_TRUE(other) << other.error();
  ASSERT_EQ((*other)->worker(), first);
  const auto began = std::chrono::steady_clock::now();
  while (ids.worker() == first) {
    ASSERT_LT(std::chrono::steady_clock::now(), began + std::chrono::seconds(30));
    const auto id = ids.next();
    if (!id && id.error().code() == Errc::kUnavailable) continue;
    ASSERT_TRUE(id) << id.error();
    ASSERT_GT(id->number(), last);
    last = id->number();
  }
  EXPECT_EQ(ids.guarantees().unique_by, UniqueBy::kLease);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ids.next().error().code() == Errc::kClosed ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// A call that holds a lock while it waits would keep worker() waiting, too.
TEST_P(LeasedProcessesTest, ACallThatWaitsForTheClockKeepsNoOtherWaiting) {
  const std::string url = place_->url();
  const auto layout = Layout::parse("time:40 worker:10 sequence:1 unit:1s");
  ASSERT_TRUE(LeasedWorkers::create(url, kName, {.layout = *layout, .workers = 4}));
  const auto workers = LeasedWorkers::open(url, kName, {.ttl = std::chrono::seconds(30)});
  ASSERT_TRUE(workers) << workers.error();
  const auto ids = workers->ids();
  ASSERT_TRUE(ids) << ids.error();
  std::atomic<std::uint64_t> given = 0;
  std::jthread other([&] {  // One of five calls waits for a whole second.
    for (int i = 0; i < 5; ++i) {
      const auto id = (*ids)->next();
      EXPECT_TRUE(id) << id.error();
      ++given;
    }
  });
  ASSERT_TRUE(support::eventually([&] { return given >= 2; }));
  std::uint64_t asked = 0;
  while (given < 5) asked += (*ids)->worker() < 4 ? 1 : 0;
  EXPECT_GT(asked, 1'000U);
}

TEST_P(LeasedProcessesTest, ThreadsOfOneObjectRepeatNothingOverItsLosses) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kLosses = 3;
  const std::string url = place_->url();
  const auto layout = Layout::parse("time:41 worker:10 sequence:4");
  ASSERT_TRUE(LeasedWorkers::create(url, kName, {.layout = *layout, .workers = 8}));
  const auto workers = LeasedWorkers::open(url, kName, options());
  ASSERT_TRUE(workers) << workers.error();
  const auto ids = workers->ids();
  ASSERT_TRUE(ids) << ids.error();
  auto client = Client::connect(url);
  ASSERT_TRUE(client) << client.error();
  std::array<std::vector<std::uint64_t>, kThreads> given;
  std::array<std::jthread, kThreads> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.at(i) = std::jthread([&, i](const std::stop_token& over) {
      while (!over.stop_requested()) {
        const auto id = (*ids)->next();
        if (id) given.at(i).push_back(id->number());
      }
    });
  }
  std::vector<Result<std::unique_ptr<Snowflake>>> others;
  for (std::size_t i = 0; i < kLosses; ++i) {
    const std::uint64_t before = (*ids)->worker();
    const std::string lock = std::string("holdfast-ids/") + kName + "/" + std::to_string(before);
    const auto seen = client->inspect(lock);
    ASSERT_TRUE(seen && *seen && (*seen)->holders.size() == 1);
    ASSERT_TRUE(client->break_lock(lock, (*seen)->holders[0].token, "a test"));
    others.push_back(workers->take());  // So that the object cannot have it again.
    ASSERT_TRUE(others.back() && (*others.back())->worker() == before);
    ASSERT_TRUE(support::eventually([&] { return (*ids)->worker() != before; }));
  }
  for (std::jthread& thread : threads) thread.request_stop();
  for (std::jthread& thread : threads) thread.join();
  std::vector<std::uint64_t> all;
  for (const auto& each : given) {
    EXPECT_TRUE(grow(each));
    all.insert(all.end(), each.begin(), each.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST_P(LeasedProcessesTest, AForkedChildGetsNothingAndTheParentGoesOn) {
  const std::string url = place_->url();
  ASSERT_TRUE(LeasedWorkers::create(url, kName, spec_of(4)));
  auto workers = std::make_unique<LeasedWorkers>(*LeasedWorkers::open(url, kName, options()));
  auto ids = *workers->take();
  ASSERT_TRUE(ids->next());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool closed = ids->next().error().code() == Errc::kClosed &&
                        workers->take().error().code() == Errc::kClosed &&
                        workers->workers().error().code() == Errc::kClosed;
    ids = nullptr;
    workers = nullptr;
    ::_exit(closed ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(ids->next());
  EXPECT_TRUE(workers->take());
}

HOLDFAST_ON_SHARED_STORES(LeasedProcessesTest);

}  // namespace
}  // namespace holdfast::ids
