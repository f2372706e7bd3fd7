// `holdfast serve` with several shards, as several processes on one journal in etcd: they share the
// shards evenly, and move them when one joins, is drained or dies.
#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/stores.h"
#include "src/port/service/shards.h"
#include "tests/faults/client_side.h"
#include "tests/faults/crowd.h"
#include "tests/support/etcd_server.h"
#include "tests/support/holdfast_server.h"
#include "tests/support/loopback.h"

namespace holdfast::faults {
namespace {

using holdfast::testing::Crowd;
using support::EtcdCluster;
using support::HoldfastServer;

constexpr std::uint32_t kShards = 4;

class ShardedService {
 public:
  explicit ShardedService(std::size_t servers, const std::string& leadership = "2s")
      : leadership_(leadership) {
    for (std::size_t i = 0; i < servers; ++i) {
      servers_.push_back(std::make_unique<HoldfastServer>(support::HoldfastOptions{
          .journal = journal(), .arguments = {"--shards", std::to_string(kShards)}}));
    }
    EXPECT_TRUE(eventually([&] { return is_even() && all_know_the_leaders(); }, kLong));
  }
  std::string journal() const { return etcd_.url("/locks?leadership=" + leadership_); }
  EtcdCluster& etcd() { return etcd_; }
  HoldfastServer& operator[](std::size_t index) { return *servers_[index]; }
  std::string url() const {
    std::string all;
    for (const auto& each : servers_) {
      all += (all.empty() ? "holdfast://127.0.0.1:" : ",127.0.0.1:") + std::to_string(each->port());
    }
    return all + "?open_timeout=60s";
  }
  // How many shards each server leads; 0 also for one that does not answer.
  std::vector<std::uint32_t> leading() const {
    std::vector<std::uint32_t> counts;
    const auto seen = service_status(url());
    if (!seen) return std::vector<std::uint32_t>(servers_.size());  // It is asked again.
    for (const ServerStatus& each : *seen) counts.push_back(each.leading);
    return counts;
  }
  std::uint32_t led() const {
    std::uint32_t sum = 0;
    for (const std::uint32_t each : leading()) sum += each;
    return sum;
  }
  // They look four times a second.
  bool all_know_the_leaders() const {
    const auto seen = service_status(url());
    return seen && std::all_of(seen->begin(), seen->end(), [](const ServerStatus& each) {
             const std::string list = "," + each.leader + ",";
             return list.find(",,") == std::string::npos;
           });
  }
  // All shards are led, and of the servers that run none leads two more than another one.
  bool is_even() {
    const auto counts = leading();
    std::uint32_t sum = 0;
    std::uint32_t most = 0;
    std::uint32_t fewest = kShards;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (!servers_[i]->running()) continue;
      sum += counts[i];
      most = std::max(most, counts[i]);
      fewest = std::min(fewest, counts[i]);
    }
    return sum == kShards && most <= fewest + 1;
  }

 private:
  const std::string leadership_;
  EtcdCluster etcd_;
  std::vector<std::unique_ptr<HoldfastServer>> servers_;
};

std::string ask(const HoldfastServer& server, const std::string& request) {
  return support::exchange_on_loopback(server.port(), request + "*1\r\n$4\r\nQUIT\r\n", 5s);
}

std::string words(const std::vector<std::string>& all) {
  std::string wire = "*" + std::to_string(all.size()) + "\r\n";
  for (const std::string& each : all) {
    wire += "$" + std::to_string(each.size()) + "\r\n" + each + "\r\n";
  }
  return wire;
}

// A name of that shard.
std::string name_in(std::uint32_t shard) {
  for (int i = 0;; ++i) {
    std::string name = "name-" + std::to_string(i);
    if (port::shard_of(name, kShards) == shard) return name;
  }
}

// One for each shard, by a client of its own.
std::vector<Lease> hold_all(const Client& client, milliseconds ttl = 60s) {
  std::vector<Lease> leases;
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    auto lease = client.mutex(name_in(shard)).acquire({.wait = kLong, .ttl = ttl});
    if (!lease) throw std::runtime_error(lease.error().message());
    leases.push_back(*std::move(lease));
  }
  return leases;
}

void expect_held_by_their_clients(const Client& other, std::vector<Lease>& leases) {
  for (Lease& lease : leases) {
    EXPECT_TRUE(eventually([&] { return static_cast<bool>(lease.renew()); })) << lease.name();
    EXPECT_TRUE(lease.held()) << lease.name();
    const auto tried = other.mutex(lease.name()).try_acquire();
    EXPECT_TRUE(tried && !*tried) << lease.name();
    const Token before = lease.token();
    expect_released(lease);
    auto next = other.mutex(lease.name()).acquire({.wait = kLong});
    ASSERT_TRUE(next) << next.error().message();
    EXPECT_GT(next->token(), before) << lease.name();
    expect_released(*next);
  }
}

TEST(ServiceShardsTest, AServerAloneServesEveryName) {
  const ShardedService service(1);
  const Client one = connect(service.url());
  const Client two = connect(service.url());
  EXPECT_FALSE(one.guarantees().multi);
  EXPECT_TRUE(one.guarantees().survives_failover);
  std::vector<std::string> seen;
  std::mutex mutex;
  const auto watch = two.watch("name-", [&](const LockEvent& event) {
    const std::lock_guard lock(mutex);
    if (event.kind == LockEventKind::kGranted) seen.push_back(event.name);
  });
  ASSERT_TRUE(watch) << watch.error().message();
  auto leases = hold_all(one);
  const auto listed = two.list("name-");
  ASSERT_TRUE(listed) << listed.error().message();
  ASSERT_EQ(listed->size(), kShards);
  EXPECT_TRUE(std::is_sorted(listed->begin(), listed->end(),
                             [](auto& x, auto& y) { return x.name < y.name; }));
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return seen.size() == kShards;
  }));
  const auto info = two.inspect(name_in(1));
  ASSERT_TRUE(info && *info);
  EXPECT_EQ((*info)->holders.size(), 1U);
  auto waiting = wait_for(two, name_in(3));
  expect_released(leases[3]);
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  expect_released(*got);
  leases.pop_back();
  expect_held_by_their_clients(two, leases);
}

// Locks of several shards are taken in turn, all or none.
TEST(ServiceShardsTest, SeveralLocksAreTakenInTurn) {
  const ShardedService service(1);
  const Client one = connect(service.url());
  const Client two = connect(service.url());
  auto all = one.acquire_all({{name_in(0)}, {name_in(1)}, {name_in(2)}}, {.wait = kLong});
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_FALSE(two.try_acquire_all({{name_in(3)}, {name_in(2)}}).value());
  EXPECT_TRUE(two.mutex(name_in(3)).try_acquire().value()) << "none is left behind";
  EXPECT_TRUE(all->release());
}

TEST(ServiceShardsTest, WhileEtcdDoesNotAnswerEachServerSaysSoAndLeadsStill) {
  ShardedService service(2, "40s");
  const auto all_say = [&](bool answers) {
    const auto seen = service_status(service.url());
    return seen && std::all_of(seen->begin(), seen->end(), [&](const ServerStatus& each) {
             return each.trouble.empty() && each.journal_answers == answers;
           });
  };
  EXPECT_TRUE(all_say(true));
  service.etcd().pause();
  const auto began = base::BootClock::now();
  EXPECT_TRUE(eventually([&] { return all_say(false); }, kLong));
  EXPECT_EQ(service.led(), kShards);
  EXPECT_LT(base::BootClock::now() - began, 20s) << "not the 40 s of the lead";
  service.etcd().resume();
  EXPECT_TRUE(eventually([&] { return all_say(true); }, kLong));
}

TEST(ServiceShardsTest, AServerThatJoinsGetsItsShareAndNoLeaseEnds) {
  ShardedService service(2, "60s");
  EXPECT_EQ(service[1].terminate(), 0);
  EXPECT_TRUE(eventually([&] { return service.leading()[0] == kShards; }, 20s));
  const Client one = connect(service.url());
  const Client two = connect(service.url());
  auto leases = hold_all(one, 20s);
  service[1].start();
  EXPECT_TRUE(eventually([&] { return service.is_even(); }, kLong));
  EXPECT_EQ(service.leading(), (std::vector<std::uint32_t>{2, 2}));
  for (const Lease& lease : leases) EXPECT_FALSE(lease.lost().stop_requested()) << lease.name();
  expect_held_by_their_clients(two, leases);
}

// It gives its shards up; nobody waits for its leases of leadership.
TEST(ServiceShardsTest, AServerThatIsDrainedLeavesItsShardsToTheOthersAtOnce) {
  ShardedService service(2, "60s");
  const Client one = connect(service.url());
  const Client two = connect(service.url());
  auto leases = hold_all(one);
  EXPECT_EQ(service[0].terminate(), 0);
  EXPECT_TRUE(eventually([&] { return service.led() == kShards; }, 20s));
  expect_held_by_their_clients(two, leases);
}

TEST(ServiceShardsTest, TheOthersTakeTheShardsOfAServerThatWasKilled) {
  ShardedService service(3);
  const Client one = connect(service.url());
  const Client two = connect(service.url());
  auto leases = hold_all(one);
  service[1].kill9();
  EXPECT_TRUE(eventually([&] { return service.is_even(); }, kLong));
  expect_held_by_their_clients(two, leases);
}

// Shards of the dead server have no leader for longer than a request may take; the others have one.
TEST(ServiceShardsTest, AClientThatBeginsWhileAShardHasNoLeaderWaitsForOne) {
  ShardedService service(2, "10s");
  const auto members = service_status(service.url()).value();
  service[1].kill9();
  const Client late = connect(service.url(), 1s);
  std::size_t served = 0;
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    const auto tried = late.mutex(name_in(shard)).try_acquire();
    served += tried && *tried ? 1 : 0;
  }
  EXPECT_EQ(served, members[0].leading) << "tries do not wait, and their shards are served";
  hold_all(late);
}

// The other server's shards go on meanwhile.
TEST(ServiceShardsTest, AServerThatStandsStillHoldsUpItsOwnShardsOnly) {
  ShardedService service(2, "10s");
  const Client one = connect(service.url());
  const auto members = service_status(service.url()).value();
  service[0].pause();
  std::size_t served = 0;
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    const auto tried = one.mutex(name_in(shard)).try_acquire();
    served += tried && *tried ? 1 : 0;
  }
  EXPECT_EQ(served, members[1].leading);
  service[0].resume();
  EXPECT_TRUE(eventually([&] { return service.is_even(); }, kLong));
}

// The first server of the URL hangs. A client that comes now, doctor and the leases at the other
// server go on.
TEST(ServiceShardsTest, AServerThatHangsKeepsNoClientFromTheOthersShards) {
  ShardedService service(2, "60s");
  const Client one = connect(service.url());
  auto leases = hold_all(one, 6s);
  const auto status = service_status(service.url());
  ASSERT_TRUE(status) << status.error().message();
  const auto hangs = [&](std::uint32_t shard) {
    std::istringstream leaders(status->back().leader);
    std::string leader;
    for (std::uint32_t i = 0; i <= shard; ++i) std::getline(leaders, leader, ',');
    return leader == status->front().address;
  };
  service[0].pause();
  const auto began = base::BootClock::now();
  const auto late = Client::connect(service.url());
  ASSERT_TRUE(late) << late.error().message();
  EXPECT_LT(base::BootClock::now() - began, 20s) << "not the 60 s of the URL";
  std::size_t reached = 0;
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    if (hangs(shard)) continue;
    const auto info = late->inspect(name_in(shard));
    EXPECT_TRUE(info && *info) << info.error().message();
    ++reached;
  }
  EXPECT_EQ(reached, 2U);
  const auto report = late->doctor();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(std::count_if(report->findings.begin(), report->findings.end(),
                          [](const Finding& each) { return each.severity == Severity::kProblem; }),
            2);
  // Leases of a shard that hangs are lost in time; the others outlast them.
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    if (hangs(shard)) {
      EXPECT_TRUE(fires(leases[shard].lost()));
    }
  }
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    if (!hangs(shard)) {
      EXPECT_TRUE(leases[shard].held()) << leases[shard].name();
    }
  }
  service[0].resume();
}

// Three servers with HTTP ports, each of which leads a shard.
class ServiceOverHttp {
 public:
  ServiceOverHttp() {
    for (const auto& port : http_) {
      servers_.push_back(std::make_unique<HoldfastServer>(
          support::HoldfastOptions{.journal = etcd_.url("/locks?leadership=2s"),
                                   .arguments = {"--shards", std::to_string(kShards), "--http",
                                                 "127.0.0.1:" + std::to_string(port.number())}}));
    }
    EXPECT_TRUE(eventually([&] { return is_shared() && sees_all(0) && sees_all(1) && sees_all(2); },
                           kLong));
  }
  HoldfastServer& operator[](std::size_t index) { return *servers_[index]; }
  std::string get(std::size_t server, const std::string& path) const {
    return exchange(server, "GET " + path + " HTTP/1.1\r\n", "", kLong);
  }
  std::string post(std::size_t server, const std::string& path, const std::string& body,
                   milliseconds patience = kLong) const {
    return exchange(server,
                    "POST " + path + " HTTP/1.1\r\nHoldfast-Request: 1\r\nContent-Type: " +
                        "application/json\r\nContent-Length: " + std::to_string(body.size()) +
                        "\r\n",
                    body, patience);
  }
  // A list has the locks of all shards.
  bool sees_all(std::size_t server) const {
    const std::string list = get(server, "/v1/locks");
    return list.starts_with("HTTP/1.1 200") && list.find("elsewhere") == std::string::npos;
  }
  // The server that leads that shard, as another one says.
  std::size_t leader(std::uint32_t shard, std::size_t asked = 0) const {
    const std::string told = get(asked, "/v1/server");
    std::istringstream leaders(told.substr(told.find("\"shard_leaders\":[") + 17));
    std::string leader;
    for (std::uint32_t i = 0; i <= shard; ++i) std::getline(leaders, leader, ',');
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (leader.find(":" + std::to_string(servers_[i]->port()) + "\"") != leader.npos) return i;
    }
    throw std::runtime_error("nobody leads: " + told);
  }

 private:
  bool is_shared() const {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (get(i, "/v1/server").find("\"leading\":0") != std::string::npos) return false;
    }
    return true;
  }
  std::string exchange(std::size_t server, const std::string& head, const std::string& body,
                       milliseconds patience) const {
    return support::exchange_on_loopback(
        http_[server].number(), head + "Host: localhost\r\nConnection: close\r\n\r\n" + body,
        patience);
  }

  const EtcdCluster etcd_;
  const std::array<support::ReservedPort, 3> http_;
  std::vector<std::unique_ptr<HoldfastServer>> servers_;
};

const std::string kId = "0123456789abcdef0123456789abcdef";

// The text of a field of JSON.
std::string field(const std::string& json, const std::string& name) {
  const std::size_t at = json.find("\"" + name + "\":\"");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 4;
  return json.substr(begin, json.find('"', begin) - begin);
}

TEST(ServiceShardsTest, TheHttpPortOfEachServerServesEveryLock) {
  const ServiceOverHttp service;
  const std::string wish = "{\"ttl_ms\":60000}";
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    const std::string path = "/v1/locks/" + name_in(shard);
    for (std::size_t server = 0; server < 3; ++server) {
      const std::string taken = service.post(server, path + "/acquire", wish);
      ASSERT_TRUE(taken.starts_with("HTTP/1.1 200")) << taken;
      const std::string busy = service.post((server + 1) % 3, path + "/acquire", wish);
      EXPECT_TRUE(busy.starts_with("HTTP/1.1 409")) << busy;
      const std::string seen = service.get((server + 2) % 3, path);
      EXPECT_NE(seen.find("\"holding\":1"), std::string::npos) << seen;
      EXPECT_EQ(field(seen, "token"), field(taken, "token"));
      const std::string broken =
          service.post((server + 1) % 3, path + "/break",
                       "{\"reason\":\"x\",\"token\":\"" + field(taken, "token") + "\"}");
      EXPECT_TRUE(broken.starts_with("HTTP/1.1 200")) << broken;
    }
    const std::string held = service.post(shard % 3, path + "/acquire", wish);
    EXPECT_TRUE(held.starts_with("HTTP/1.1 200")) << held;
  }
  for (std::size_t server = 0; server < 3; ++server) {
    const std::string all = service.get(server, "/v1/locks");
    for (std::uint32_t shard = 0; shard < kShards; ++shard) {
      EXPECT_NE(all.find("\"name\":\"" + name_in(shard) + "\""), std::string::npos) << all;
    }
    EXPECT_EQ(all.find("elsewhere"), std::string::npos) << all;
  }
}

TEST(ServiceShardsTest, AWaitingHttpCallOutlastsTheDeathOfTheLeaderWithItsId) {
  ServiceOverHttp service;
  const std::string name = name_in(1);
  const std::string path = "/v1/locks/" + name;
  const std::size_t leader = service.leader(1);
  const std::size_t here = (leader + 1) % 3;
  const std::string held = service.post(here, path + "/acquire", "{\"ttl_ms\":120000}");
  ASSERT_TRUE(held.starts_with("HTTP/1.1 200")) << held;
  const auto wait = [&] {
    return service.post(here, path + "/acquire",
                        "{\"ttl_ms\":60000,\"wait_ms\":120000,\"id\":\"" + kId + "\"}", 150s);
  };
  const auto is_queued = [&] {
    return service.get(here, path).find("\"waiting\":1") != std::string::npos;
  };
  auto first = std::async(std::launch::async, wait);
  ASSERT_TRUE(eventually(is_queued, kLong));
  service[leader].kill9();
  const std::string unknown = first.get();
  EXPECT_TRUE(unknown.starts_with("HTTP/1.1 503")) << unknown;
  EXPECT_EQ(field(unknown, "code"), "outcome_unknown") << unknown;
  // This server hears of the next leader by its next look, and the caller repeats the call.
  auto second = std::async(std::launch::async, [&] {
    std::string answer;
    EXPECT_TRUE(eventually([&] { return !(answer = wait()).starts_with("HTTP/1.1 503"); }, kLong));
    return answer;
  });
  ASSERT_TRUE(eventually(is_queued, kLong));
  const std::string release = "{\"id\":\"" + field(held, "id") + "\"}";
  EXPECT_TRUE(eventually(
      [&] { return service.post(here, path + "/release", release).starts_with("HTTP/1.1 200"); },
      kLong));
  const std::string granted = second.get();
  EXPECT_TRUE(granted.starts_with("HTTP/1.1 200")) << granted;
  EXPECT_GT(field(granted, "token"), field(held, "token"));
}

TEST(ServiceShardsTest, NeverTwoAreInsideWhileServersAreKilled) {
  ShardedService service(3);
  Crowd crowd(service.url(), 4, {.ttl = 4s, .wait = 30s});
  crowd.await_grants(50);
  for (std::size_t round = 0; round < 3; ++round) {
    service[round].kill9();
    crowd.await_grants(20);
    service[round].start();
  }
  crowd.stop();
}

// It would keep the shard from a server of another version, and its lead would end in the same way.
TEST(ServiceShardsTest, AShardWhoseJournalIsDamagedIsNotLedAgain) {
  ShardedService service(1);
  const auto first = connect(service.url()).mutex(name_in(1)).acquire({.wait = kLong});
  ASSERT_TRUE(first) << first.error();
  const auto has_leader = [&] {
    const auto key = service.etcd().etcdctl({"get", "locks/hf1/j/s1/leader", "-w", "fields"});
    return key.find("\"Count\" : 1") != std::string::npos;
  };
  ASSERT_TRUE(has_leader());
  service[0].kill9();
  std::istringstream keys(
      service.etcd().etcdctl({"get", "locks/hf1/j/s1/b/", "--prefix", "--keys-only"}));
  std::string last;
  for (std::string line; std::getline(keys, line);) last = line.empty() ? last : line;
  ASSERT_FALSE(last.empty());
  service.etcd().etcdctl({"put", last, "HFJ nonsense"});
  service[0].start();
  ASSERT_TRUE(eventually([&] { return service.led() == kShards - 1; }, kLong));
  // It may be the last one that is tried.
  EXPECT_TRUE(eventually([&] { return service[0].log().find("damaged") != std::string::npos; }))
      << service[0].log();
  ASSERT_TRUE(eventually([&] { return !has_leader(); }));
  EXPECT_FALSE(support::eventually(has_leader, 5s));
  EXPECT_TRUE(service[0].running());
  EXPECT_TRUE(connect(service.url()).mutex(name_in(2)).acquire({.wait = kLong}));
}

TEST(ServiceShardsTest, AnotherNumberOfShardsIsRefused) {
  const ShardedService service(1);
  try {
    const HoldfastServer other({.journal = service.journal(), .arguments = {"--shards", "8"}});
    ADD_FAILURE() << "it started";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("has 4 shard(s), not 8"), std::string::npos)
        << error.what();
  }
  const HoldfastServer without({.journal = service.journal()});
  EXPECT_EQ(service_status(without.url()).value().front().shards, kShards);
}

TEST(ServiceShardsTest, AClientOfBeforeAndNamesOfOtherShardsAreRefused) {
  ShardedService service(1);
  HoldfastServer& server = service[0];
  EXPECT_TRUE(ask(server, words({"HF1", "attach", "0"})).starts_with("-SHARDS "));
  EXPECT_TRUE(ask(server, words({"HF1", "attach", "0", "4"})).starts_with("-SHARDS "));
  const std::string attach = words({"HF1", "attach", "0", "2"});
  const auto inspect = [](const std::string& name) {
    return words({"HF1", "inspect", "1", "hf1:{" + name + "}"});
  };
  EXPECT_NE(ask(server, attach + inspect(name_in(2))).find("\r\n*6\r\n"), std::string::npos);
  const std::string stray = ask(server, attach + inspect(name_in(1)));
  EXPECT_NE(stray.find("-UNSUPPORTED 'name-"), std::string::npos) << stray;
  // Texts of ids are in the first shard, whatever their names are.
  const std::string kept = words({"HF1", "kept", "1", "hf1:{ids/a}"});
  EXPECT_NE(ask(server, attach + kept).find("-UNSUPPORTED 'ids/a' is of shard 0"),
            std::string::npos);
  EXPECT_NE(ask(server, words({"HF1", "attach", "0", "0"}) + kept).find("\r\n*0\r\n"),
            std::string::npos);
  EXPECT_NE(ask(server, attach + words({"HF1", "attach", "0", "1"})).find("-ERR "),
            std::string::npos);
}

// Its keys say which shard.
TEST(ServiceShardsTest, ALockLibraryReachesAllShardsAtAnyServer) {
  ShardedService service(2);
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    const std::string set = words({"SET", name_in(shard), "me", "NX", "PX", "60000"});
    EXPECT_TRUE(ask(service[0], set).starts_with("+OK"));
    EXPECT_TRUE(ask(service[1], set).starts_with("$-1")) << "it is taken";
  }
  const auto mine = connect(service.url()).mutex(name_in(1)).try_acquire();
  EXPECT_TRUE(mine && !*mine) << "the library's lock excludes others";
  EXPECT_NE(ask(service[0], words({"DEL", name_in(0), name_in(1)})).find("in different shards"),
            std::string::npos);
}

TEST(ServiceShardsTest, MembersAndDrainKnowShards) {
  ShardedService service(2);
  EXPECT_TRUE(eventually([&] {
    const auto members = service_members(service.url());
    return members && members->size() == 2 && members->front().shards == 2 &&
           members->back().shards == 2;
  }));
  const std::string drained = "127.0.0.1:" + std::to_string(service[0].port());
  const auto gone = drain_server(service.url(), drained, kLong);
  ASSERT_TRUE(gone) << gone.error().message();
  EXPECT_TRUE(eventually([&] { return service.led() == kShards; }, 20s));
}

TEST(ServiceShardsTest, AServerThatStepsDownHandsOverAllItsShardsAndGetsItsShareBack) {
  ShardedService service(3);
  const Client client = connect(service.url());
  std::vector<Lease> leases = hold_all(client);
  const std::string address = "127.0.0.1:" + std::to_string(service[0].port());
  ASSERT_GT(service.leading()[0], 0U);
  const auto unnamed = step_down(service.url());
  ASSERT_FALSE(unnamed) << "the URL names several";
  EXPECT_EQ(unnamed.error().code(), Errc::kInvalidArgument) << unnamed.error().message();
  Crowd crowd(service.url(), 4, {.ttl = 4s, .wait = 30s});
  crowd.await_grants(20);
  const auto asked = step_down(service.url(), address);
  ASSERT_TRUE(asked) << asked.error().message();
  EXPECT_EQ(*asked, address);
  EXPECT_TRUE(eventually([&] {
    const auto counts = service.leading();
    return counts[0] == 0 && counts[1] + counts[2] == kShards;
  }));
  EXPECT_TRUE(service[0].running());
  const auto again = step_down(service.url(), address);
  ASSERT_FALSE(again) << "it leads nothing";
  EXPECT_EQ(again.error().code(), Errc::kUnsupported) << again.error().message();
  for (Lease& each : leases) EXPECT_TRUE(each.renew());
  EXPECT_TRUE(eventually([&] { return service.leading()[0] > 0 && service.is_even(); }, kLong));
  for (Lease& each : leases) EXPECT_TRUE(each.release());
  crowd.stop();
}

TEST(ServiceShardsTest, AServerAloneDoesNotStepDown) {
  ShardedService service(1);
  const auto asked = step_down(service.url());
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code(), Errc::kUnsupported) << asked.error().message();
  EXPECT_EQ(service.led(), kShards);
}

}  // namespace
}  // namespace holdfast::faults
