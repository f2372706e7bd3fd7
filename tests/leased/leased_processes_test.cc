// Processes that lease worker numbers from one store, and are killed, or stopped beyond their
// lease, at any moment.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/ids/leased_workers.h"
#include "tests/records/place.h"

namespace holdfast::ids {
namespace {

using holdfast::testing::make_place;
using holdfast::testing::Place;
using holdfast::testing::stores_under_test;
using std::chrono::milliseconds;

constexpr const char* kName = "orders";
constexpr milliseconds kTtl{1'500};

LeasedWorkersSpec spec_of(std::uint64_t workers) {
  return {*Layout::parse("time:41 worker:10 sequence:12"), {}, workers};
}
LeasedWorkersOptions options() { return {.ttl = kTtl}; }

// One line of a process. 0: the reason for its end is in `why`.
struct Given {
  std::uint64_t process = 0;
  std::uint64_t number = 0;
  std::uint64_t why = 0;
};

// Takes another number whenever it has lost one.
[[noreturn]] void give_ids(const std::string& url, std::uint64_t process, int to) {
  const auto tell = [&](std::uint64_t number, std::uint64_t why) {
    const Given given{process, number, why};
    if (::write(to, &given, sizeof given) != sizeof given) ::_exit(1);
  };
  // A busy machine may be too slow for one try.
  const auto may_pass = [](const Error& error) {
    return error.code() == Errc::kUnavailable || error.code() == Errc::kOutcomeUnknown;
  };
  auto workers = LeasedWorkers::open(url, kName, options());
  while (!workers && may_pass(workers.error())) {
    workers = LeasedWorkers::open(url, kName, options());
  }
  std::int64_t last = -1;
  for (;;) {
    auto ids = workers ? workers->take(last) : workers.error();
    if (!ids && may_pass(ids.error())) continue;
    if (!ids) {
      tell(0, static_cast<std::uint64_t>(ids.error().code()) + 1);
      ::_exit(1);
    }
    for (auto id = (*ids)->next(); id; id = (*ids)->next()) {
      tell(id->number(), 0);
      // Time passes between the ids, so that leases are renewed and bounds are raised meanwhile.
      std::this_thread::sleep_for(milliseconds(1));
    }
    last = (*ids)->last_unit();
  }
}

// Those that several processes can share.
std::vector<std::string> shared_stores() {
  std::vector<std::string> stores = stores_under_test();
  std::erase(stores, "memory");
  return stores;
}

class LeasedProcessesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = holdfast::testing::no_place_because(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    place_ = make_place(GetParam());
  }

  // Also after a failure: one that is stopped would keep what waits for its output.
  void TearDown() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }

  std::unique_ptr<Place> place_;
  std::vector<pid_t> children_;
};

TEST_P(LeasedProcessesTest, WhoIsKilledOrStoppedBeyondItsLeaseRepeatsNothing) {
  constexpr std::size_t kProcesses = 6;
  const std::string url = place_->url();
  ASSERT_TRUE(LeasedWorkers::create(url, kName, spec_of(40)));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::vector<pid_t>& children = children_;
  std::uint64_t begun = 0;
  const auto begin = [&] {
    const std::uint64_t process = begun++;
    const pid_t child = ::fork();
    if (child == 0) give_ids(url, process, ends[1]);
    return child;
  };
  for (std::size_t i = 0; i < kProcesses; ++i) children.push_back(begin());

  std::unordered_set<std::uint64_t> seen;
  std::vector<std::uint64_t> last(1'000);
  std::size_t ended = 1;  // The next one to be killed. The first child is the one that is stopped.
  bool stopped = false;
  auto wakes = std::chrono::steady_clock::time_point::max();
  std::size_t after_waking = 0;
  Given given;
  for (std::size_t count = 0; after_waking < 100 || count < 6'000; ++count) {
    ASSERT_EQ(::read(ends[0], &given, sizeof given), static_cast<ssize_t>(sizeof given));
    ASSERT_NE(given.number, 0U) << "process " << given.process << ": " << given.why - 1;
    ASSERT_TRUE(seen.insert(given.number).second) << given.number << " came twice";
    ASSERT_GT(given.number, last[given.process]) << "process " << given.process;
    last[given.process] = given.number;
    if (count == 1'000) {
      ::kill(children[0], SIGSTOP);
      stopped = true;
      wakes = std::chrono::steady_clock::now() + 2 * kTtl;
    }
    if (stopped && std::chrono::steady_clock::now() > wakes) {
      ::kill(children[0], SIGCONT);
      stopped = false;
    }
    if (!stopped && count > 1'000 && given.process == 0) ++after_waking;
    if (count % 500 == 499) {
      ::kill(children[ended], SIGKILL);
      ::waitpid(children[ended], nullptr, 0);
      children[ended] = begin();
      ended = ended + 1 < kProcesses ? ended + 1 : 1;
    }
  }
  ::close(ends[0]);
  ::close(ends[1]);
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

INSTANTIATE_TEST_SUITE_P(Stores, LeasedProcessesTest, ::testing::ValuesIn(shared_stores()),
                         [](const auto& store) { return store.param; });

}  // namespace
}  // namespace holdfast::ids
