// A server with several shards in this process, its clients and its HTTP port. The journals are in
// memory or in a folder; tests/faults/service_shards_test.cc has several servers on etcd.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "holdfast/client.h"
#include "holdfast/semaphore.h"
#include "holdfast/stores.h"
#include "src/port/service/shards.h"
#include "src/server/http/routes.h"
#include "src/server/testing/http_rig.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Got;

constexpr std::uint32_t kShards = 4;
const std::string kId = "0123456789abcdef0123456789abcdef";

bool tells(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The `number`th name of that shard.
std::string name_in(std::uint32_t shard, std::uint32_t number = 0) {
  for (int i = 0;; ++i) {
    std::string name = "name-" + std::to_string(i);
    if (port::shard_of(name, kShards) == shard && number-- == 0) return name;
  }
}

class ServerShardsTest : public testing::HttpTest {
 protected:
  ServerShardsTest() { options_.shards = kShards; }
  Client connect() const { return *Client::connect(server_->url() + "?open_timeout=60s"); }
  json acquire(const std::string& name, const std::string& id = kId) const {
    const Got got = post("/v1/locks/" + name + "/acquire", {{"ttl_ms", 60'000}, {"id", id}});
    EXPECT_EQ(got.status, 200) << got.body;
    return got.parsed();
  }
};

TEST_F(ServerShardsTest, AServerInMemoryServesAllItsShards) {
  open();
  EXPECT_EQ(server_->lead().leading, kShards);
  EXPECT_EQ(server_->journal_id(), "");
  const Client one = connect();
  const Client two = connect();
  EXPECT_FALSE(one.guarantees().multi);
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    auto held = one.mutex(name_in(shard)).acquire({.wait = 60s});
    ASSERT_TRUE(held) << held.error().message();
    const auto tried = two.mutex(name_in(shard)).try_acquire();
    EXPECT_TRUE(tried && !*tried);
    EXPECT_TRUE(held->renew());
    EXPECT_TRUE(held->release());
  }
  const auto status = service_status(server_->url());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->front().leading, kShards);
  const std::string own = server_->address();
  EXPECT_EQ(status->front().leader, own + "," + own + "," + own + "," + own);
}

TEST_F(ServerShardsTest, ARefusalNamesTheLocksOfTwoShards) {
  open();
  const testing::Socket socket(server_->address());
  const std::string a = name_in(1);
  const std::string b = name_in(2);
  for (const char* command : {"DEL", "EXISTS"}) {
    const std::string refused = socket.ask(testing::request({command, a, name_in(1, 1), b}));
    EXPECT_EQ(refused, "-UNSUPPORTED '" + std::string(command) + "': '" + a + "' and '" + b +
                           "' are in different shards of the service, and no command does "
                           "anything in two: send one for each lock\r\n");
  }
}

// INFO has no line that would be empty, or of one shard among several.
TEST_F(ServerShardsTest, InfoHasOnlyLinesThatAreTrue) {
  open();
  const testing::Socket many(server_->address());
  const std::string of_many = many.ask(testing::request({"INFO"}));
  for (const char* none : {"\nleader:", "\njournal_id:", "\nterm:"}) {
    EXPECT_FALSE(tells(of_many, none)) << of_many;
  }
  EXPECT_TRUE(tells(of_many, "\nshards_led:0,1,2,3\r")) << of_many;
  server_.reset();
  options_.shards = 1;
  open();
  const testing::Socket one(server_->address());
  const std::string of_one = one.ask(testing::request({"INFO"}));
  for (const char* none : {"\nleader:", "\nshards_led:", "\nshard_leaders:"}) {
    EXPECT_FALSE(tells(of_one, none)) << of_one;
  }
  EXPECT_TRUE(tells(of_one, "\nleads:1\r")) << of_one;
  EXPECT_TRUE(tells(of_one, "\njournal_id:" + server_->journal_id() + "\r")) << of_one;
}

TEST_F(ServerShardsTest, AFolderKeepsTheGrantsOfAllShards) {
  options_.journal = "sqlite:" + folder_.file("data");
  open();
  EXPECT_TRUE(server_->lead().found.new_journal);
  for (std::uint32_t shard = 0; shard < kShards; ++shard) acquire(name_in(shard));
  EXPECT_TRUE(server_->place().ends_with("/data")) << server_->place();
  EXPECT_EQ(ServerAccess::start(options_, {}).error().code(), Errc::kStoreInUse);
  server_.reset();
  options_.shards = 0;
  open();
  EXPECT_EQ(server_->lead().shards, kShards);
  EXPECT_FALSE(server_->lead().found.new_journal);
  EXPECT_EQ(server_->lead().found.locks, kShards);
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    EXPECT_EQ(get("/v1/locks/" + name_in(shard)).parsed()["holders"].size(), 1U);
  }
  server_.reset();
  options_.shards = 1;
  EXPECT_EQ(ServerAccess::start(options_, {}).error().code(), Errc::kInvalidArgument);
}

TEST_F(ServerShardsTest, AServerEndsWhenTheFilesOfOneShardAreTakenAway) {
  options_.journal = "sqlite:" + folder_.file("data");
  std::promise<std::string> ended;
  options_.on_stopped = [&](const Error& reason) { ended.set_value(reason.message()); };
  open();
  const std::string database = folder_.file("data") + "/shard-2/journal.db";
  std::filesystem::rename(database, folder_.file("away"));
  const std::string why = ended.get_future().get();
  EXPECT_TRUE(tells(why, database)) << why;
}

// Locks, waits, permits, watches, status and HTTP at once, and then the end: for the thread
// sanitizer.
TEST_F(ServerShardsTest, ClientsOfAllShardsWorkAtOnceUntilTheServerStops) {
  open();
  std::array<std::atomic<int>, kShards> inside{};
  std::atomic<int> rounds{0};
  std::atomic<bool> stops{false};
  std::vector<std::thread> crowd;
  for (int member = 0; member < 3; ++member) {
    crowd.emplace_back([&, client = connect(), member] {
      const auto watch = client.watch("name-", [](const LockEvent&) {});
      EXPECT_TRUE(watch);
      for (std::uint32_t round = 0; round < 60; ++round) {
        const std::uint32_t shard = (round + static_cast<std::uint32_t>(member)) % kShards;
        auto held = client.mutex(name_in(shard)).acquire({.wait = 60s, .ttl = 2s});
        if (!held) continue;  // The machine stands still, or the server has stopped.
        if (inside[shard].fetch_add(1) != 0) ADD_FAILURE() << "two hold " << held->name();
        static_cast<void>(held->renew());
        inside[shard].fetch_sub(1);
        static_cast<void>(held->release());
        ++rounds;
        if (round % 10 == 0) {
          EXPECT_TRUE(client.list("name-"));
          const auto all = client.try_acquire_all({{name_in(0, 1)}, {name_in(1, 1)}});
          EXPECT_TRUE(all) << all.error().message();
        }
      }
    });
  }
  std::thread looker([&] {
    while (!stops) {
      EXPECT_EQ(get("/metrics").status, 200);
      EXPECT_EQ(get("/v1/locks").status, 200);
      EXPECT_TRUE(service_status(server_->url()));
    }
  });
  for (std::thread& each : crowd) each.join();
  stops = true;
  looker.join();
  EXPECT_GT(rounds, 100);
  const Client last = connect();
  const auto held = last.mutex(name_in(2)).acquire({.wait = 60s});
  ASSERT_TRUE(held) << held.error().message();
  std::thread waiter([&] {
    EXPECT_FALSE(last.mutex(name_in(2)).acquire({.wait = 1s})) << "it is held, or the server ends";
  });
  server_->stop();
  waiter.join();
}

TEST_F(ServerShardsTest, HttpReachesTheLocksOfAllShards) {
  open();
  std::vector<std::string> names;
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    for (std::uint32_t number = 0; number < 3; ++number) {
      names.push_back(name_in(shard, number));
      acquire(names.back());
    }
    const std::string& name = names.back();
    EXPECT_EQ(get("/v1/locks/" + name).parsed()["holders"].size(), 1U);
    EXPECT_EQ(post("/v1/locks/" + name + "/renew", {{"ttl_ms", 90'000}, {"id", kId}}).status, 200);
    const json other = {{"ttl_ms", 60'000}};
    EXPECT_EQ(post("/v1/locks/" + name + "/acquire", other).status, 409);
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> listed;
  std::string after;
  for (int page = 0; page < 4; ++page) {
    const json got = get("/v1/locks?limit=4&after=" + after).parsed();
    EXPECT_FALSE(got.contains("elsewhere"));
    for (const json& each : got["locks"]) listed.push_back(each["name"]);
    if (!got.contains("next_after")) break;
    after = got["next_after"];
  }
  EXPECT_EQ(listed, names);
  for (const std::string& each : names) {
    EXPECT_EQ(post("/v1/locks/" + each + "/release", {{"id", kId}}).status, 200);
  }
  EXPECT_EQ(post("/v1/ids/orders/next", json::object()).status, 404) << "there are no such ids";
}

TEST_F(ServerShardsTest, AWaitingCallOfEachShardIsGranted) {
  open();
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    const std::string name = name_in(shard);
    acquire(name);
    const testing::Socket waiting(address());
    const std::string call = posted(
        "/v1/locks/" + name + "/acquire",
        json{{"ttl_ms", 60'000}, {"wait_ms", 60'000}, {"id", "ffffffffffffffffffffffffffffffff"}}
            .dump());
    ASSERT_TRUE(waiting.send(call));
    await_queue(name, 1);
    EXPECT_EQ(post("/v1/locks/" + name + "/release", {{"id", kId}}).status, 200);
    EXPECT_EQ(receive(waiting).status, 200) << name;
  }
}

TEST_F(ServerShardsTest, HttpTellsWhichShardsTheServerLeads) {
  open();
  acquire(name_in(0));
  acquire(name_in(1));
  const json state = get("/v1/server").parsed();
  EXPECT_EQ(state["shards"], kShards);
  EXPECT_EQ(state["leading"], kShards);
  EXPECT_EQ(state["holders"], 2) << "of all shards together";
  EXPECT_EQ(state["shard_leaders"], std::vector<std::string>(kShards, server_->address()));
  const std::string metrics = get("/metrics").body;
  EXPECT_TRUE(tells(metrics, "\nholdfast_server_shards 4\n")) << metrics;
  EXPECT_TRUE(tells(metrics, "\nholdfast_server_shard_leads{shard=\"3\"} 1\n")) << metrics;
  EXPECT_TRUE(tells(metrics, "\nholdfast_server_holders 2\n")) << metrics;
  EXPECT_EQ(get("/readyz").body, "ready: leads 4 of 4 shards\n");
}

// A server of several, as its HTTP port sees it before it leads a shard.
class HttpSceneTest : public ::testing::Test {
 protected:
  HttpSceneTest() {
    scene_.address = "192.0.2.1:7420";
    scene_.shards.resize(kShards);
    scene_.shards[1].leader = "192.0.2.2:7420";
  }
  HttpAnswer ask(const std::string& target) {
    HttpAnswer told;
    HttpRequest request;
    request.method = "GET";
    request.target = target;
    answer_request(scene_, request, {.departure = std::make_shared<HttpDeparture>()},
                   [&](HttpAnswer answer) { told = std::move(answer); });
    return told;
  }
  HttpScene scene_;
};

TEST_F(HttpSceneTest, ALockOfAnotherServersShardNamesThatServer) {
  const HttpAnswer there = ask("/v1/locks/" + name_in(1));
  EXPECT_EQ(there.status, 503U);
  EXPECT_TRUE(tells(there.body, "192.0.2.2:7420")) << there.body;
  const HttpAnswer nowhere = ask("/v1/locks/" + name_in(2));
  EXPECT_EQ(nowhere.status, 503U);
  EXPECT_TRUE(tells(nowhere.body, "no server leads yet")) << nowhere.body;
}

TEST_F(HttpSceneTest, AServerThatLeadsNoShardIsNotReadyAndSaysWhoLeads) {
  EXPECT_EQ(ask("/readyz").status, 503U);
  EXPECT_EQ(ask("/v1/locks").status, 503U);
  const json state = json::parse(ask("/v1/server").body);
  EXPECT_EQ(state["leads"], false);
  EXPECT_EQ(state["leading"], 0);
  EXPECT_EQ(state["shard_leaders"], (std::vector<std::string>{"", "192.0.2.2:7420", "", ""}));
  EXPECT_FALSE(state.contains("holders"));
  EXPECT_TRUE(tells(ask("/metrics").body, "\nholdfast_server_shard_leads{shard=\"1\"} 0\n"));
}

}  // namespace
}  // namespace holdfast::server
