// recipe=redisson and setnx: Holdfast beside the real lock libraries of other languages.
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/faults/recipe_scenes.h"
#include "tests/faults/redis_peer.h"
#include "tests/support/redis_server.h"

namespace holdfast::faults {
namespace {

using support::RedisServer;

constexpr milliseconds kWatchdog = 1500ms;  // Redisson renews every third of it.
constexpr milliseconds kTheirLease = 60s;   // Nobody renews it: it must outlast a busy machine.

RedisServer& server() {
  static RedisServer one;
  return one;
}

// One process for all cases of a library; a new one after a kill.
RedisPeer& peer(const std::string& name) {
  static std::map<std::string, std::unique_ptr<RedisPeer>> all;
  auto& one = all[name];
  if (one == nullptr || !one->running()) {
    one = std::make_unique<RedisPeer>(name, server().port(),
                                      name == "redisson" ? kWatchdog : kTheirLease);
  }
  return *one;
}

std::string form_of(const std::string& library) {
  return library == "redisson" ? "redisson" : "setnx";
}

std::string url(const std::string& form, milliseconds session = 30s, std::uint16_t port = 0) {
  return server().url(
      {.port = port,
       .query = {{"recipe", form}, {"session", std::to_string(session.count()) + "ms"}}});
}

support::Reply must(const std::vector<std::string>& words) { return server().must(words); }
std::int64_t exists(const std::string& key) { return must({"EXISTS", key}).integer; }

std::string name_of(const ::testing::TestParamInfo<const char*>& one) {
  std::string name(one.param);
  std::erase(name, '-');
  return name;
}

class RedisPeerTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_REDIS();
    if (const std::string why = no_peer(library()); !why.empty()) GTEST_SKIP() << why;
    server().flushall();
  }
  static std::string library() { return GetParam(); }
  static std::string form() { return form_of(library()); }
  static RedisPeer& other() { return peer(library()); }
  static RecipePlace place(milliseconds session = 30s) {
    return {url(form(), session), session, [] { return std::make_unique<PeerProgram>(other()); }};
  }
};

TEST_P(RedisPeerTest, BothExcludeEachOther) { exclude_each_other(place(), "orders/42"); }

TEST_P(RedisPeerTest, ItWaitsForOurRelease) {
  const Client client = connect(place().url);
  Lease lease = hold(client, "ours");
  const int asked = other().tell("take", "ours");
  let_pass(200ms);
  EXPECT_FALSE(other().answered(asked));
  expect_released(lease);
  // Redisson would look again when the lease ends, after 30 s: it was woken.
  EXPECT_TRUE(other().answer(asked, 20s));
  EXPECT_TRUE(other().ask("give", "ours"));
}

TEST_P(RedisPeerTest, ItGetsWhatAKilledHolderOfOursHeld) {
  ActorProcess holder(url(form(), 1s));
  ASSERT_EQ(holder.ask("acquire killed 1000").word, "granted");
  const int asked = other().tell("take", "killed");
  holder.kill();
  EXPECT_TRUE(other().answer(asked));
  EXPECT_TRUE(other().ask("give", "killed"));
}

TEST_P(RedisPeerTest, APausedHolderIsToldBeforeItHolds) {
  a_paused_holder_is_told_first(place(1s), "paused");
}

TEST_P(RedisPeerTest, NeverTwoOfACrowd) { processes_never_overlap(place(5s), "crowd", 4); }

TEST_P(RedisPeerTest, ItExtendsWhileWeWait) {
  const Client client = connect(place().url);
  ASSERT_TRUE(other().ask("take", "extended"));
  auto waiting = wait_for(client, "extended");
  if (library() != "redisson") {  // Which does so by itself.
    EXPECT_TRUE(other().ask("extend", "extended"));
  }
  EXPECT_TRUE(other().ask("give", "extended"));
  EXPECT_TRUE(waiting.get());
}

class RedisPeerRenewalTest : public RedisPeerTest {};

// Each for longer than a lease of its own. The last case: it kills Redisson's process.
TEST_P(RedisPeerRenewalTest, RenewalKeepsTheOtherOut) {
  const Client client = connect(url(form(), 1s));
  const bool renews_itself = library() == "redisson";
  std::unique_ptr<RedisPeer> own;
  if (!renews_itself) own = std::make_unique<RedisPeer>(library(), server().port(), 3s);
  RedisPeer& briefly = own ? *own : other();
  Lease ours = hold(client, "ours");
  ASSERT_TRUE(briefly.ask("take", "theirs"));
  for (int second = 0; second < 4; ++second) {
    let_pass(1s);
    if (!renews_itself) {
      ASSERT_TRUE(briefly.ask("extend", "theirs"));
    }
    EXPECT_FALSE(is_free(client, "theirs"));
    EXPECT_FALSE(briefly.ask("try", "ours"));
  }
  EXPECT_TRUE(ours.held());
  // Its process dies in the middle of it.
  auto waiting = wait_for(client, "theirs");
  briefly.kill9();
  auto lease = waiting.get();
  ASSERT_TRUE(lease) << lease.error().message();
}

INSTANTIATE_TEST_SUITE_P(Libraries, RedisPeerTest,
                         ::testing::Values("redisson", "redis-py", "redsync", "redislock",
                                           "node-redlock"),
                         &name_of);

INSTANTIATE_TEST_SUITE_P(Libraries, RedisPeerRenewalTest, ::testing::Values("redisson", "redis-py"),
                         &name_of);

class RedissonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_REDIS();
    if (const std::string why = no_peer("redisson"); !why.empty()) GTEST_SKIP() << why;
    server().flushall();
  }
  static RedisPeer& other() { return peer("redisson"); }
};

std::int64_t listeners(const std::string& key) {
  const auto reply = must({"PUBSUB", "NUMSUB", "redisson_lock__channel:{" + key + "}"});
  return reply.elements.at(1).integer;
}

TEST_F(RedissonTest, ItsUnlockWakesUs) {
  const Client client = connect(url("redisson"));
  ASSERT_TRUE(other().ask("take", "woken"));
  auto waiting = wait_for(client, "woken");
  ASSERT_TRUE(eventually([&] { return listeners("woken") == 1; }));
  // The message alone: nothing else says that the key is free, and no poll is asked for it.
  ASSERT_TRUE(other().ask("give", "woken"));
  auto lease = waiting.get();
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_TRUE(eventually([&] { return listeners("woken") == 0; })) << "nobody waits any more";
  expect_released(*lease);
}

TEST_F(RedissonTest, WaitersAskTheServerOnceASecond) {
  const Client client = connect(url("redisson"));
  must({"HSET", "quiet", "8a1b0e5c-0000-4000-8000-000000000001:7", "1"});  // Nobody renews it.
  auto waiting = wait_for(client, "quiet");
  ASSERT_TRUE(eventually([&] { return listeners("quiet") == 1; }));
  let_pass(1s);  // The first questions come closer together.
  server().reset_counts();
  let_pass(3s);
  EXPECT_LE(server().command_count("eval"), 5);
  must({"DEL", "quiet"});  // Without a message.
  EXPECT_TRUE(waiting.get());
}

TEST_F(RedissonTest, ForceUnlockIsALossThatTheNextRenewalTells) {
  const Client client = connect(url("redisson", 2s));
  Lease lease = hold(client, "forced");
  ASSERT_TRUE(other().ask("force", "forced"));
  ASSERT_TRUE(other().ask("try", "forced"));
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_FALSE(lease.held());
  static_cast<void>(lease.release());
  EXPECT_FALSE(is_free(client, "forced")) << "a late release frees nobody else's lock";
  EXPECT_TRUE(other().ask("give", "forced"));
}

TEST_F(RedissonTest, ItCannotUnlockWhatIsOurs) {
  const Client client = connect(url("redisson"));
  Lease lease = hold(client, "ours");
  EXPECT_FALSE(other().ask("give", "ours"));
  const auto renewed = lease.renew();
  EXPECT_TRUE(renewed) << renewed.error().message();
}

TEST_F(RedissonTest, NamesWithBracesShareTheirChannel) {
  const Client client = connect(url("redisson"));
  Lease lease = hold(client, "{tag}/a");
  const int asked = other().tell("take", "{tag}/a");
  let_pass(200ms);
  expect_released(lease);
  EXPECT_TRUE(other().answer(asked, 20s));
  EXPECT_TRUE(other().ask("give", "{tag}/a"));
}

class RedisFormTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_REDIS();
    server().flushall();
  }
  static std::string form() { return GetParam(); }
  static bool redisson() { return form() == "redisson"; }
  // As a program of another kind would hold it.
  static void hold_by_hand(const std::string& key) {
    if (redisson()) {
      must({"HSET", key, "8a1b0e5c-0000-4000-8000-000000000001:7", "1"});
    } else {
      must({"SET", key, "by hand"});
    }
    must({"PEXPIRE", key, "60000"});
  }
};

TEST_P(RedisFormTest, TheKeyLooksAsTheFormHasIt) {
  const Client client = connect(url(form()));
  const Lease lease = hold(client, "looked/at");
  const auto left = must({"PTTL", "looked/at"}).integer;
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 30'000);
  if (redisson()) {
    const auto fields = must({"HGETALL", "looked/at"});
    ASSERT_EQ(fields.elements.size(), 2U);
    EXPECT_TRUE(fields.elements[0].text.ends_with(":1")) << fields.elements[0].text;
    EXPECT_EQ(fields.elements[0].text.size(), 38U);
    EXPECT_EQ(fields.elements[1].text, "1");
  } else {
    EXPECT_EQ(must({"GET", "looked/at"}).text.size(), 32U);
  }
}

TEST_P(RedisFormTest, AKeyOfAnotherTypeStaysAsItIs) {
  must({"RPUSH", "list", "a", "b"});
  must(redisson() ? std::vector<std::string>{"SET", "text", "theirs"}
                  : std::vector<std::string>{"HSET", "text", "a", "1"});
  const Client client = connect(url(form()));
  for (const std::string key : {"list", "text"}) {
    const std::string before = must({"DUMP", key}).text;
    EXPECT_FALSE(is_free(client, key));
    const auto waited = client.mutex(key).acquire({.wait = 300ms});
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code(), Errc::kTimedOut) << waited.error().message();
    const auto shown = client.inspect(key);
    ASSERT_TRUE(shown && *shown && (*shown)->holders.size() == 1);
    EXPECT_NE((*shown)->holders[0].who.reason.find("a key of type"), std::string::npos);
    EXPECT_EQ(must({"DUMP", key}).text, before);
    EXPECT_EQ(must({"PTTL", key}).integer, -1);
  }
}

TEST_P(RedisFormTest, AKeyThatBecomesAnotherOnesIsLostAndLeftAlone) {
  const Client client = connect(url(form(), 1s));
  Lease lease = hold(client, "turned");
  must({"DEL", "turned"});
  must({"RPUSH", "turned", "somebody's"});
  EXPECT_TRUE(fires(lease.lost()));
  static_cast<void>(lease.release());
  EXPECT_EQ(must({"LLEN", "turned"}).integer, 1);
  EXPECT_EQ(must({"PTTL", "turned"}).integer, -1);
}

TEST_P(RedisFormTest, InspectShowsWhoHolds) {
  hold_by_hand("shown");
  const Client client = connect(url(form()));
  const auto shown = client.inspect("shown");
  ASSERT_TRUE(shown && *shown) << (shown ? "nobody" : shown.error().message());
  ASSERT_EQ((*shown)->holders.size(), 1U);
  EXPECT_EQ((*shown)->holders[0].who.owner,
            redisson() ? "8a1b0e5c-0000-4000-8000-000000000001:7" : "by hand");
  EXPECT_GT((*shown)->holders[0].time_left, 10s);
}

TEST_P(RedisFormTest, ThreadsOfOneClientTakeTurns) {
  threads_take_turns({url(form()), 30s, {}}, "threads");
  EXPECT_TRUE(server().eventually([](RedisServer&) { return exists("threads") == 0; }));
}

// The reply of the take is lost; then that of a release. Nothing is counted twice.
TEST_P(RedisFormTest, LostRepliesLeaveNothingBehind) {
  support::FaultProxy proxy({.server_port = server().port()});
  Client client = connect(url(form(), 3s, proxy.port()), kLong);
  const std::string release = redisson() ? "HDEL', KEYS[1], ARGV[1]) == 0" : "~= ARGV[1]";
  for (const std::string& what : {std::string("local time"), release}) {
    const int fault =
        proxy.add({.kind = support::Fault::Kind::kDropReplies, .containing = what, .times = 1});
    Lease lease = hold(client, "lost");
    EXPECT_TRUE(lease.held());
    if (redisson()) {
      EXPECT_EQ(must({"HVALS", "lost"}).elements.at(0).text, "1");
    }
    static_cast<void>(lease.release());
    EXPECT_TRUE(proxy.wait_for_hits(fault)) << what;
    EXPECT_TRUE(server().eventually([](RedisServer&) { return exists("lost") == 0; })) << what;
  }
}

TEST_P(RedisFormTest, AUserWithoutARightLeavesNoKeyWithoutAnExpiry) {
  const std::string rest = redisson() ? "+hexists +hset +hdel" : "+set +get +del";
  RedisServer strict(
      {.users = {"some on >secret ~* &* +eval +type +time +ping +select +pttl " + rest}});
  const auto client = Client::connect(
      strict.url({.user = "some", .password = "secret", .query = {{"recipe", form()}}}));
  ASSERT_TRUE(client) << client.error().message();
  const auto lease = client->mutex("refused").try_acquire();
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code(), Errc::kPermissionDenied) << lease.error().message();
  EXPECT_EQ(strict.must({"EXISTS", "refused"}).integer, 0);
}

// The line that the page gives.
TEST_P(RedisFormTest, TheRightsOfThePageSuffice) {
  std::ifstream page(HOLDFAST_PEERS "/../../docs/stores/redis.md");
  std::string line;
  const std::string begin = "ACL SETUSER holdfast on >SECRET ";
  while (std::getline(page, line) && line.find("&redisson_lock__channel:*") == std::string::npos) {
  }
  ASSERT_TRUE(line.starts_with(begin));
  RedisServer strict({.users = {"some on >secret " + line.substr(begin.size())}});
  const auto client = Client::connect(
      strict.url({.user = "some", .password = "secret", .query = {{"recipe", form()}}}));
  ASSERT_TRUE(client) << client.error().message();
  Lease lease = hold(*client, "orders/42");
  const auto renewed = lease.renew();
  EXPECT_TRUE(renewed) << renewed.error().message();
  EXPECT_TRUE(client->inspect("orders/42"));
  auto waiting = wait_for(*client, "orders/42");
  expect_released(lease);
  auto next = waiting.get();
  ASSERT_TRUE(next) << next.error().message();
  expect_released(*next);
  EXPECT_EQ(strict.must({"EXISTS", "orders/42"}).integer, 0);
}

TEST_P(RedisFormTest, ItPromisesNoMoreThanTheFormGives) {
  Client client = connect(url(form()));
  const Guarantees all = client.guarantees();
  EXPECT_FALSE(all.fenced || all.fair || all.shared || all.permits || all.list || all.values);
  EXPECT_FALSE(all.survives_restart || all.survives_failover);
  EXPECT_EQ(client.list().error().code(), Errc::kUnsupported);
  const auto report = client.doctor();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(std::any_of(report->findings.begin(), report->findings.end(), [](const auto& each) {
    return each.topic == "recipe" && each.severity == Severity::kWarning;
  }));
  EXPECT_EQ(must({"DBSIZE"}).integer, 0) << "the doctor cleans up";
}

TEST_P(RedisFormTest, APrefixIsPartOfTheKey) {
  Client client = connect(url(form()) + "&prefix=redlock:");
  const Lease lease = hold(client, "job");
  EXPECT_EQ(exists("redlock:job"), 1);
}

INSTANTIATE_TEST_SUITE_P(Forms, RedisFormTest, ::testing::Values("redisson", "setnx"),
                         [](const auto& one) { return std::string(one.param); });

TEST(RedisRecipeUrl, WhatDoesNotFitIsRefused) {
  HOLDFAST_NEEDS_REDIS();
  for (const std::string options :
       {"recipe=none", "session=5s", "prefix=x", "recipe=setnx&session=10ms", "recipe=etcd"}) {
    const auto client = Client::connect(server().url() + "?" + options);
    ASSERT_FALSE(client) << options;
    EXPECT_EQ(client.error().code(), Errc::kInvalidArgument) << client.error().message();
  }
  const auto sentinels = Client::connect("redis+sentinel://127.0.0.1?primary=m&recipe=setnx");
  ASSERT_FALSE(sentinels);
  EXPECT_NE(sentinels.error().message().find("name the primary"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::faults
