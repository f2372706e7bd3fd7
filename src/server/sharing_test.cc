#include "src/server/sharing.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;

constexpr SharingTimes kTimes{.turn = 400ms, .settled = 10s};

base::BootInstant at(std::chrono::milliseconds time) { return base::BootInstant(time); }

std::size_t count(const std::vector<bool>& plan) {
  return static_cast<std::size_t>(std::count(plan.begin(), plan.end(), true));
}

TEST(SharingTest, AServerAloneTakesEveryVacantShardAtOnce) {
  Sharing sharing("a", kTimes);
  EXPECT_EQ(count(sharing.plan({{}, {"", "", ""}}, at(1s)).take), 3U);
}

TEST(SharingTest, AVacantShardIsLeftToTheServerThatLeadsFewest) {
  Sharing a("a", kTimes);
  Sharing b("b", kTimes);
  const SharedShards view{{"a", "b"}, {"a", "a", "b", ""}};
  EXPECT_TRUE(b.plan(view, at(1s)).take[3]);
  EXPECT_FALSE(a.plan(view, at(1s)).take[3]);
  EXPECT_FALSE(a.plan(view, at(1399ms)).take[3]);
  EXPECT_TRUE(a.plan(view, at(1400ms)).take[3]) << "the one whose turn it was may be dead";
}

TEST(SharingTest, TheTurnBeginsWhenTheShardBecomesVacant) {
  Sharing a("a", kTimes);
  a.plan({{"a", "b"}, {"a", ""}}, at(1s));
  a.plan({{"a", "b"}, {"a", "b"}}, at(2s));
  EXPECT_FALSE(a.plan({{"a", "b"}, {"a", ""}}, at(3s)).take[1]);
  EXPECT_TRUE(a.plan({{"a", "b"}, {"a", ""}}, at(3400ms)).take[1]);
}

TEST(SharingTest, NothingMovesBeforeTheServersHaveBeenTheSameForAWhile) {
  Sharing a("a", kTimes);
  const SharedShards view{{"a", "b"}, {"a", "a", "a", "a"}};
  EXPECT_EQ(count(a.plan(view, at(1s)).give), 0U);
  EXPECT_EQ(count(a.plan(view, at(10'999ms)).give), 0U);
  EXPECT_EQ(count(a.plan(view, at(11s)).give), 2U);
  EXPECT_EQ(count(a.plan({{"a", "b", "c"}, view.leaders}, at(12s)).give), 0U) << "one has joined";
}

TEST(SharingTest, ADifferenceOfOneShardIsEven) {
  Sharing a("a", kTimes);
  const SharedShards view{{"a", "b", "c"}, {"a", "a", "a", "b", "b", "b", "c", "c"}};
  a.plan(view, at(0s));
  EXPECT_EQ(count(a.plan(view, at(1h)).give), 0U);
}

TEST(SharingTest, ALeaderThatIsNotOnTheListKeepsItsShard) {
  Sharing a("a", kTimes);
  const SharedShards view{{"a"}, {"a", "gone"}};
  a.plan(view, at(0s));
  const auto plan = a.plan(view, at(1h));
  EXPECT_EQ(count(plan.take), 0U);
  EXPECT_EQ(count(plan.give), 0U);
}

// A server of an older version is on the list, and can lead nothing.
TEST(SharingTest, AShardThatCameBackIsNotGivenAgainBeforeOtherServersAreThere) {
  Sharing a("a", kTimes);
  SharedShards view{{"a", "b"}, {"a", "a"}};
  a.plan(view, at(0s));
  EXPECT_TRUE(a.plan(view, at(10s)).give[1]);
  view.leaders[1] = "";
  a.plan(view, at(11s));
  view.leaders[1] = "a";
  a.plan(view, at(12s));
  const auto plan = a.plan(view, at(22s));
  EXPECT_FALSE(plan.give[1]);
  EXPECT_TRUE(plan.give[0]) << "the other one was not tried";
  view.servers = {"a", "c"};
  a.plan(view, at(23s));
  EXPECT_TRUE(a.plan(view, at(33s)).give[1]);
}

TEST(SharingTest, AServerThatHasSteppedDownGivesAllAndTakesNothingForAWhile) {
  Sharing a("a", kTimes);
  SharedShards view{{"a", "b"}, {"a", "b", "a", "", "b", "b"}};
  EXPECT_TRUE(a.plan(view, at(1s)).take[3]);
  EXPECT_FALSE(a.yields());
  a.step_down(at(1s));
  EXPECT_TRUE(a.yields());
  const auto plan = a.plan(view, at(2s));
  EXPECT_EQ(plan.give, (std::vector<bool>{true, false, true, false, false, false}));
  EXPECT_EQ(count(plan.take), 0U);
  view.leaders[0] = "";
  EXPECT_EQ(a.plan(view, at(3s)).give,
            (std::vector<bool>{false, false, true, false, false, false}));
  view.leaders[2] = "";
  EXPECT_EQ(count(a.plan(view, at(8999ms)).take), 0U) << "it yields for 6 s after the last one";
  EXPECT_TRUE(a.yields());
  EXPECT_EQ(count(a.plan(view, at(9s)).take), 3U) << "nobody took them";
  EXPECT_FALSE(a.yields());
}

TEST(SharingTest, AServerThatYieldsTakesAllWhenTheOthersAreGone) {
  Sharing a("a", kTimes);
  a.step_down(at(1s));
  EXPECT_EQ(count(a.plan({{"a", "b"}, {"", "b"}}, at(2s)).take), 0U);
  const auto plan = a.plan({{"a"}, {"", ""}}, at(3s));
  EXPECT_EQ(count(plan.take), 2U);
  EXPECT_EQ(count(plan.give), 0U);
  EXPECT_FALSE(a.yields());
}

TEST(SharingTest, AServerAloneHandsNothingOver) {
  Sharing a("a", kTimes);
  a.step_down(at(1s));
  EXPECT_EQ(count(a.plan({{"a"}, {"a", "a"}}, at(2s)).give), 0U);
}

// Three servers, of which one steps down: the others do not count on it, and all end even.
TEST(SharingTest, AfterAStepDownSharingEvensOutAgain) {
  const std::vector<std::string> servers = {"a", "b", "c"};
  SharedShards view{servers, {"a", "b", "c", "a", "b", "c", "a", "b"}};
  std::vector<Sharing> all;
  for (const std::string& each : servers) all.emplace_back(each, kTimes);
  all[0].step_down(at(0s));
  std::size_t led_meanwhile = 0;
  for (std::chrono::milliseconds now{0}; now < 60s; now += 250ms) {
    view.servers = all[0].yields() ? std::vector<std::string>{"b", "c"} : servers;
    SharedShards next = view;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto plan = all[i].plan(view, at(now));
      for (std::size_t shard = 0; shard < view.leaders.size(); ++shard) {
        if (plan.take[shard] && next.leaders[shard].empty()) next.leaders[shard] = servers[i];
        if (plan.give[shard]) next.leaders[shard].clear();
      }
    }
    view = next;
    const auto led = std::count(view.leaders.begin(), view.leaders.end(), "a");
    if (now >= 500ms && now < 6s) {
      EXPECT_EQ(led, 0) << now.count();
    }
    if (now == 500ms) {
      EXPECT_EQ(std::count(view.leaders.begin(), view.leaders.end(), "b"), 4);
      EXPECT_EQ(std::count(view.leaders.begin(), view.leaders.end(), "c"), 4);
    }
    led_meanwhile = static_cast<std::size_t>(led);
  }
  EXPECT_GE(led_meanwhile, 2U);
  EXPECT_FALSE(all[0].yields());
}

// Servers that follow their plans, from any start, end even, and then nothing moves.
TEST(SharingTest, EveryBeginningEndsEven) {
  for (std::size_t servers = 1; servers <= 5; ++servers) {
    for (const std::size_t shards : {1U, 2U, 8U, 64U}) {
      SharedShards view{{}, std::vector<std::string>(shards)};
      std::vector<Sharing> all;
      for (std::size_t i = 0; i < servers; ++i) {
        view.servers.push_back("server-" + std::to_string(i));
        all.emplace_back(view.servers.back(), kTimes);
      }
      std::fill_n(view.leaders.begin(), shards / 2, view.servers.back());
      std::size_t moves = 0;
      for (std::chrono::milliseconds now{0}; now < 60s; now += 250ms) {
        SharedShards next = view;
        for (std::size_t i = 0; i < servers; ++i) {
          const auto plan = all[i].plan(view, at(now));
          for (std::size_t shard = 0; shard < shards; ++shard) {
            if (plan.take[shard] && next.leaders[shard].empty()) {
              next.leaders[shard] = view.servers[i];
            }
            if (!plan.give[shard]) continue;
            EXPECT_EQ(view.leaders[shard], view.servers[i]);
            next.leaders[shard].clear();
            ++moves;
          }
        }
        view = next;
      }
      std::map<std::string, std::size_t> led;
      for (const std::string& each : view.servers) led[each] = 0;
      for (const std::string& each : view.leaders) ++led[each];
      ASSERT_EQ(led.size(), servers) << "a shard is vacant";
      const auto [fewest, most] = std::minmax_element(
          led.begin(), led.end(), [](auto& x, auto& y) { return x.second < y.second; });
      EXPECT_LE(most->second, fewest->second + 1) << servers << " servers, " << shards << " shards";
      EXPECT_LE(moves, shards) << "no shard goes to and fro";
    }
  }
}

}  // namespace
}  // namespace holdfast::server
