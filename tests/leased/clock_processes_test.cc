// Processes whose wall clocks are set back and forward: while they give ids, and over a restart.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/ids/leased_workers.h"
#include "tests/leased/crowd.h"
#include "tests/leased/fixture.h"
#include "tests/support/clock_shift.h"

namespace holdfast::ids {
namespace {

using holdfast::testing::Crowd;
using holdfast::testing::give;
using holdfast::testing::Giver;
using holdfast::testing::Givers;
using holdfast::testing::grow;
using holdfast::testing::says;
using support::ClockShift;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kSome = 300;

class LeasedClocksTest : public LeasedTest {};

// A host whose clock is set back: by less than a policy believes as a jump forward, or by more.
struct Host {
  Host(Crowd& its_crowd, milliseconds its_back) : crowd(its_crowd), back(its_back) { start(); }
  void start() { giver = crowd.start(clock->path()); }
  bool far() const { return back > ClockPolicy().forward_at_most; }

  Crowd& crowd;
  milliseconds back;
  std::unique_ptr<ClockShift> clock = std::make_unique<ClockShift>();
  Giver* giver = nullptr;
};

Givers givers_of(const std::vector<Host>& hosts) {
  Givers all;
  for (const Host& host : hosts) all.push_back(host.giver);
  return all;
}

// All clocks go back while ids are given, all processes are killed and started anew, and the clocks
// are set right.
void set_clocks_back(const std::string& url, const std::string& name, const ClockPolicy& policy) {
  ASSERT_TRUE(LeasedWorkers::create(url, name, spec_of(20, policy)));
  Crowd crowd("workers", url, name, kTtl);
  std::vector<Host> hosts;
  for (const milliseconds back : {1ms, 20ms, 1'000ms, 50'000ms, 3'600'000ms, 86'400'000ms}) {
    hosts.emplace_back(crowd, back);
  }
  ASSERT_TRUE(give(givers_of(hosts), kSome));
  for (const Host& host : hosts) host.clock->set(-host.back);
  ASSERT_TRUE(give(givers_of(hosts), kSome));
  const Givers first = givers_of(hosts);
  for (Giver* giver : first) giver->process().kill9();
  ASSERT_TRUE(become_free(url, name, workers_of(first)));
  for (Host& host : hosts) host.start();
  ASSERT_TRUE(give(givers_of(hosts), kSome));
  for (const Host& host : hosts) host.clock->set(0ms);
  for (Host& host : hosts) {
    if (!host.far()) continue;
    EXPECT_EQ(host.giver->process().terminate(), 0);  // It does not believe such a jump.
    host.start();
  }
  ASSERT_TRUE(give(givers_of(hosts), kSome));
  EXPECT_TRUE(crowd.end());
  EXPECT_TRUE(crowd.all_differ());
  if (policy != ClockPolicy::logical()) return;
  for (const Giver* giver : first) EXPECT_TRUE(grow(giver->ids()));
}

TEST_P(LeasedClocksTest, ClocksThatAreSetBackWhileIdsAreGivenRepeatNothing) {
  set_clocks_back(short_leases(), "logical", ClockPolicy::logical());
}

TEST_P(LeasedClocksTest, ClocksThatAreFollowedBackRepeatNothing) {
  set_clocks_back(short_leases(), "rounds", ClockPolicy::step_sequence(1'024));
}

// One worker number and two holders of it, of which the second one begins with an earlier clock.
struct Restart {
  Restart(const std::string& url, const std::string& its_name, const ClockPolicy& policy,
          bool its_killed, std::optional<milliseconds> its_back)
      : name(its_name), killed(its_killed), back(its_back), crowd("workers", url, name, kTtl) {
    EXPECT_TRUE(LeasedWorkers::create(url, name, spec_of(1, policy)));
  }
  bool far() const { return back && *back > ClockPolicy().forward_at_most; }

  std::string name;
  bool killed;                       // Or else the first one ended in order.
  std::optional<milliseconds> back;  // nullopt: to when the first one began.
  Crowd crowd;
  ClockShift clock{};
  Giver* before = nullptr;
  Giver* after = nullptr;
  steady_clock::time_point began{};
};
using Restarts = std::vector<std::unique_ptr<Restart>>;

// Runs the first holders, and then starts the second ones.
void run(const std::string& url, const Restarts& restarts) {
  Givers first;
  for (const auto& each : restarts) {
    each->began = steady_clock::now();
    first.push_back(each->before = each->crowd.start());
  }
  ASSERT_TRUE(give(first, kSome));
  for (const auto& each : restarts) {
    support::ChildProcess& process = each->before->process();
    EXPECT_EQ(each->killed ? process.kill9() : process.terminate(), each->killed ? -SIGKILL : 0);
  }
  for (const auto& each : restarts) {
    ASSERT_TRUE(become_free(url, each->name, {0}));
    const auto since = steady_clock::now() - each->began;
    each->clock.set(each->back ? -*each->back : -since);
    each->after = each->crowd.start(each->clock.path());
  }
}

TEST_P(LeasedClocksTest, ARestartWithAnEarlierClockRepeatsNothing) {
  const std::string url = short_leases();
  Restarts restarts;
  const auto add = [&](const ClockPolicy& policy, std::optional<milliseconds> back) {
    for (const bool killed : {true, false}) {
      const std::string name = "restart" + std::to_string(restarts.size());
      restarts.push_back(std::make_unique<Restart>(url, name, policy, killed, back));
    }
  };
  add(ClockPolicy::logical(), std::nullopt);
  for (const milliseconds back : {1ms, 50'000ms, 3'600'000ms, 86'400'000ms}) {
    add(ClockPolicy::logical(), back);
  }
  add(ClockPolicy::step_sequence(1'024), std::nullopt);
  ASSERT_NO_FATAL_FAILURE(run(url, restarts));
  for (const auto& each : restarts) {
    if (each->far()) {
      ASSERT_TRUE(says(*each->after, "reserved too far ahead of this host's clock"));
      EXPECT_EQ(each->after->count(), 0U);
      each->clock.set(0ms);
    }
    ASSERT_TRUE(give({each->after}, kSome));
    EXPECT_TRUE(each->crowd.end());
    EXPECT_TRUE(each->crowd.all_differ());
  }
  for (std::size_t i = 0; i + 2 < restarts.size(); ++i) {  // The last two have another policy.
    EXPECT_GT(restarts[i]->after->ids().front(), restarts[i]->before->ids().back());
  }
}

// The leases are long, so that a busy machine does not end one: the process would take another
// number, and believe its clock anew.
TEST_P(LeasedClocksTest, AClockThatJumpsForwardTooFarStopsIdsUntilItIsSetRight) {
  constexpr milliseconds kLong = 20s;
  constexpr milliseconds kBelieved = 50s;  // Beyond the time that is reserved, twice the lease.
  const std::string url = place_->url();
  ASSERT_TRUE(LeasedWorkers::create(url, kName, spec_of(8)));
  Crowd crowd("workers", url, kName, kLong);
  ClockShift clock;
  Giver* const giver = crowd.start(clock.path());
  ASSERT_TRUE(give({giver}, kSome));
  const milliseconds before = last_of(*giver).unix_time;
  clock.set(kBelieved);
  ASSERT_TRUE(give({giver}, kSome));
  EXPECT_GE(last_of(*giver).unix_time, before + kBelieved);

  const std::string jumped = "the wall clock jumped forward by ";
  clock.set(24h);
  ASSERT_TRUE(says(*giver, jumped));
  const std::size_t given = giver->count();
  clock.set(48h + kBelieved + 500ms);
  ASSERT_TRUE(says(*giver, jumped + std::to_string(48h / 1s)));  // And some milliseconds.
  EXPECT_EQ(giver->count(), given);

  clock.set(kBelieved);
  ASSERT_TRUE(give({giver}, kSome));
  clock.set(0s);
  ASSERT_TRUE(give({giver}, kSome));
  EXPECT_TRUE(grow(giver->ids()));
  EXPECT_EQ(giver->said("took worker "), 1U) << giver->log();

  clock.set(24h);
  Giver* const ahead = crowd.start(clock.path());
  if (place_->has_clock()) {
    ASSERT_TRUE(says(*ahead, "ahead of the store's"));
    EXPECT_EQ(ahead->count(), 0U);
  } else {
    ASSERT_TRUE(give({ahead}, kSome));
  }
  EXPECT_EQ(ahead->process().terminate(), 0);
  Giver* const right = crowd.start();  // On a number whose time is not a day ahead.
  ASSERT_TRUE(give({right}, kSome));
  EXPECT_LT(last_of(*right).unix_time, before + 24h);
  EXPECT_TRUE(crowd.end());
  EXPECT_TRUE(crowd.all_differ());
}

HOLDFAST_ON_SHARED_STORES(LeasedClocksTest);

}  // namespace
}  // namespace holdfast::ids
