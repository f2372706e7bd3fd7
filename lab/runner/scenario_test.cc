#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "lab/nemesis/schedule.h"
#include "lab/runner/matrix.h"
#include "lab/scenario/fields.h"
#include "lab/scenario/files.h"
#include "lab/scenario/secrets.h"
#include "lab/scenario/topology_files.h"
#include "lab/workload/workload.h"

namespace holdfast::lab {
namespace {

const std::string kWork = "[[workload]]\nkind = \"contend\"\n";
const std::string kOnMemory =
    "name = \"a\"\n[store]\nkind = \"memory\"\n[clients]\nprocesses = 1\n";

std::vector<Scenario> cells_of(const std::string& store, std::uint64_t seed) {
  Result<Scenario> on = scenario_on(store);
  EXPECT_TRUE(on) << store;
  on->seed = seed;
  return matrix_cells(*on);
}

std::string complaint_of(const std::string& text) {
  const Result<Scenario> scenario = read_scenario(text, "x.toml");
  return scenario ? "it was taken" : scenario.error().message();
}

std::string written(const Scenario& scenario) {
  std::ostringstream out;
  write_scenario(scenario, out);
  return out.str();
}

TEST(ScenarioTest, WhatWasWrittenIsReadBackEqual) {
  std::size_t looked_at = 0;
  for (const std::string store : {"memory", "sqlite", "redis", "redis://:se%22cret@h:1/2?a=b"}) {
    for (const Scenario& cell : cells_of(store, 7)) {
      const Result<Scenario> back = read_scenario(written(cell), "cell.toml");
      ASSERT_TRUE(back) << back.error().message();
      EXPECT_EQ(written(*back), written(cell));
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 30U);
}

TEST(ScenarioTest, TextSurvivesQuotesAndControlCharacters) {
  Scenario scenario = cells_of("memory", 1).front();
  scenario.about = "a \"b\" \\ c\n\td\x7f \xc3\xa4";
  const Result<Scenario> back = read_scenario(written(scenario), "cell.toml");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->about, scenario.about);
}

TEST(ScenarioTest, EveryFileOfTheFolderIsTaken) {
  std::size_t looked_at = 0;
  for (const auto& file : std::filesystem::directory_iterator(HOLDFAST_LAB_SCENARIOS)) {
    const Result<Scenario> scenario = read_scenario_file(file.path());
    ASSERT_TRUE(scenario) << scenario.error().message();
    EXPECT_EQ(scenario->name, file.path().stem());
    ++looked_at;
  }
  EXPECT_GT(looked_at, 5U);
}

TEST(ScenarioTest, AComplaintNamesFileLineKeyAndWhatToDo) {
  EXPECT_EQ(complaint_of("name = \"a\"\n" + kWork + "kidn = 1\n"),
            "x.toml:4: the key 'kidn' in [[workload]] is not known; did you mean kind?");
  EXPECT_EQ(complaint_of("name = \"a\"\n[[workload]]\nkind = \"contned\"\n"),
            "x.toml:3: kind in [[workload]] is 'contned' (did you mean contend?); it may be: "
            "contend, readers-writers, permits, nested, multi, long-hold, guarded, election");
  EXPECT_EQ(complaint_of("name = \"a\"\n" + kWork + "owners = 0\n"),
            "x.toml:4: owners in [[workload]] must be 1 to 64");
  EXPECT_EQ(complaint_of("name = \"a\"\n" + kWork + "ttl = 5\n"),
            "x.toml:4: ttl in [[workload]] must be a duration like \"250ms\" or \"2s\"");
  EXPECT_EQ(complaint_of(kOnMemory + kWork + "[expect]\nV1 = \"mst\"\n"),
            "x.toml:9: V1 in [expect] is 'mst' (did you mean must?); it may be: none, must, may");
  EXPECT_NE(complaint_of("name = a").find("x.toml:1: not TOML: "), std::string::npos);
}

TEST(ScenarioTest, TheStoreIsNamedOnceAndIsKnown) {
  const auto with = [](const std::string& store) {
    return complaint_of("name = \"a\"\n[store]\n" + store + "\n" + kWork);
  };
  const std::string kinds =
      "it may be: consul, etcd, failover-chain, holdfast-etcd, holdfast-shards, holdfast, "
      "hybrid-filter, hybrid, memcached, memory, mysql, postgres, redis-cluster, redis-sentinel, "
      "redis, redlock, sqlite, zookeeper, url, none";
  EXPECT_EQ(with(""), "x.toml:2: kind in [store] is missing; " + kinds +
                          "; or name the file of a topology: topology = \"my.toml\"");
  EXPECT_EQ(with("kind = \"reddis\""),
            "x.toml:3: kind in [store] is 'reddis' (did you mean redis?); " + kinds);
  EXPECT_EQ(with("kind = \"redis\"\ntopology = \"x\""),
            "x.toml:2: kind and topology in [store] do not go together: say one of them");
  EXPECT_EQ(with("topology = \"no-such.toml\""),
            "x.toml:2: cannot read the topology 'no-such.toml'");
}

TEST(ScenarioTest, WhatDoesNotFitTogetherIsRefused) {
  const auto with = [](const std::string& rest) {
    return complaint_of("name = \"a\"\n" + rest + kWork);
  };
  EXPECT_NE(complaint_of(kOnMemory).find("there is no [[workload]]"), std::string::npos);
  EXPECT_NE(with("[store]\nkind = \"memory\"\n").find("processes = 1"), std::string::npos);
  EXPECT_NE(with("[store]\nkind = \"url\"\n").find("url in [store] is missing"), std::string::npos);
  const auto needs = [&](const std::string& kind) {
    return with("[store]\nkind = \"redis\"\n[[nemesis]]\nkind = \"" + kind + "\"\n");
  };
  for (const std::string kind : {"partition", "failover", "clock-jump", "disk-full"}) {
    EXPECT_NE(needs(kind).find("needs "), std::string::npos) << kind;
  }
}

TEST(ScenarioTest, AKeyOfAThousandPartsIsRefusedBeforeItIsParsed) {
  std::string key = "a";
  for (int i = 0; i < 200'000; ++i) key += ".a";
  EXPECT_EQ(complaint_of(key + "=1"), "x.toml: a key with too many parts");
  EXPECT_EQ(complaint_of("[" + key + "]"), "x.toml: a key with too many parts");
  const std::string many_values(400'000, '[');
  EXPECT_NE(complaint_of("a=" + many_values).find("not TOML"), std::string::npos);
}

TEST(ScenarioTest, ADayOfStrikesEveryMomentIsRefused) {
  const std::string day = "duration = \"24h\"\n" + kOnMemory + kWork;
  const std::string often = "[[nemesis]]\nkind = \"kill\"\nevery = \"10ms\"\n";
  EXPECT_NE(complaint_of(day + often).find("the nemeses in [[nemesis]] would strike 8639301 times"),
            std::string::npos)
      << complaint_of(day + often);
  EXPECT_EQ(complaint_of(day + often + "times = 1000\n"), "it was taken");
}

TEST(ScenarioTest, WhoHasNoStoreToUseIsToldSo) {
  const auto with = [](const std::string& store, int processes) {
    return complaint_of("name = \"a\"\n[store]\n" + store +
                        "\n[clients]\nprocesses = " + std::to_string(processes) + "\n" + kWork);
  };
  EXPECT_NE(with("kind = \"none\"", 1).find("brings its own"), std::string::npos);
  const std::string memory = "kind = \"url\"\nurl = \"memory:\"";
  EXPECT_NE(with(memory, 2).find("every process has a store of its own"), std::string::npos);
  EXPECT_EQ(with(memory, 1), "it was taken");
}

TEST(ScenarioTest, WhatIsChangedSinceMustFitToo) {
  Scenario cell = cells_of("memory", 1).front();
  EXPECT_TRUE(check_again(cell));
  cell.duration = 25h;
  EXPECT_EQ(check_again(cell).error().message(), "duration must be from 100ms to 1d00h");
}

TEST(ScenarioTest, AFaultHitsSomebodyWhoIsThere) {
  const auto with = [](const std::string& target) {
    return complaint_of(kOnMemory + kWork + "[[nemesis]]\nkind = \"pause\"\ntarget = \"" + target +
                        "\"\n");
  };
  for (const std::string target : {"any", "all", "1"}) EXPECT_EQ(with(target), "it was taken");
  for (const std::string target : {"", "0", "2", "1x", "server", "-1"}) {
    EXPECT_EQ(with(target), "x.toml:1: target in [[nemesis]] is '" + target +
                                "'; it may be: any, all, or a number from 1 to 1");
  }
}

TEST(ScenarioTest, WhatATopologyCannotDoIsRefusedWithWhatIsMissing) {
  const auto with = [](const std::string& store, const std::string& nemesis) {
    return complaint_of("name = \"a\"\n[store]\n" + store +
                        (nemesis.empty() ? "" : "[[nemesis]]\nkind = \"" + nemesis + "\"\n") +
                        kWork);
  };
  const std::string sqlite = "kind = \"sqlite\"\n";
  const std::string redis = "kind = \"redis\"\n";
  EXPECT_EQ(with(sqlite, "restart"),
            "x.toml:1: the nemesis restart needs a server of the lab's own, which the topology "
            "'sqlite' lacks");
  EXPECT_EQ(with(redis, "partition"),
            "x.toml:1: the nemesis partition needs proxy = true in [store]");
  EXPECT_EQ(with(sqlite + "replica = true\n", ""),
            "x.toml:1: replica in [store] needs a [replica], which the topology 'sqlite' lacks");
  EXPECT_EQ(with(redis + "disk_mb = 4\n", ""),
            "x.toml:1: disk_mb in [store] needs disk = true, which the topology 'redis' lacks");
  EXPECT_EQ(with(redis + "nodes = 3\n", ""),
            "x.toml:1: nodes in [store] is 3, which is not among nodes in [server] of the topology "
            "'redis'");
  EXPECT_EQ(with("kind = \"etcd\"\nnodes = 3\n", "isolate"),
            "x.toml:1: the nemesis isolate needs network = true in [store]");
  EXPECT_EQ(with("kind = \"etcd\"\nnodes = 3\nnetwork = true\n", "isolate"), "it was taken");
  const std::string from_one = "\"\nfrom = \"one";
  EXPECT_EQ(with("kind = \"etcd\"\nnodes = 3\nnetwork = true\n", "isolate" + from_one),
            "it was taken");
  EXPECT_EQ(with(redis, "server-pause" + from_one),
            "x.toml:1: from in [[nemesis]] is for isolate, and for faults of a client's link");
  const std::string cluster = "kind = \"redis-cluster\"\n";
  EXPECT_EQ(with(cluster + "network = true\n", "partition" + from_one), "it was taken");
  EXPECT_EQ(with(cluster, "partition" + from_one),
            "x.toml:1: the nemesis partition needs network = true in [store] of the topology "
            "'redis-cluster'");
  EXPECT_EQ(with(cluster + "network = true\n", "delay"),
            "x.toml:1: the nemesis delay needs a proxy, and no proxy can stand before the servers "
            "of the topology 'redis-cluster'");
  EXPECT_EQ(with(cluster + "network = true\n", "partition" + from_one + "\"\ntarget = \"node 2"),
            "x.toml:1: target in [[nemesis]] is 'node 2'; it may be: any, all, or a number from 1 "
            "to 3");
  EXPECT_EQ(with("kind = \"etcd\"\nnetwork = true\n", ""),
            "x.toml:1: network in [store] needs several nodes, and {host} in peer, which the "
            "topology 'etcd' lacks");
  EXPECT_EQ(with("kind = \"url\"\nurl = \"redis://h\"\n", "server-pause"),
            "x.toml:1: the nemesis server-pause needs a server of the lab's own, which your own "
            "store lacks");
}

TEST(ScheduleTest, IsTheSameForTheSameSeedAndAnotherForAnother) {
  for (const Scenario& cell : cells_of("redis", 3)) {
    EXPECT_EQ(schedule(cell), schedule(cell)) << cell.name;
  }
  Scenario cell = cells_of("redis", 3).at(3);
  const std::vector<Strike> first = schedule(cell);
  cell.seed = 4;
  EXPECT_NE(schedule(cell), first);
}

TEST(ScheduleTest, HealsBeforeTheCalmAndNeverHitsOneProcessTwiceAtOnce) {
  std::size_t looked_at = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    for (const Scenario& cell : cells_of("redis", seed)) {
      std::map<std::tuple<std::string, std::uint32_t>, milliseconds> free_at;
      for (const Strike& strike : schedule(cell)) {
        const std::string& kind = cell.nemeses[strike.nemesis].kind;
        ASSERT_LE(strike.at + strike.lasts, cell.duration - cell.calm) << cell.name;
        milliseconds& free = free_at[{kind == "kill" ? "pause" : kind, strike.slot}];
        ASSERT_GE(strike.at, free) << cell.name << ", seed " << seed << ", " << kind;
        free = strike.at + strike.lasts;
        ++looked_at;
      }
    }
  }
  EXPECT_GT(looked_at, 5000U);
}

// Ready for stores of several nodes.
Scenario on_a_cluster() {
  Scenario on;
  const auto topology = read_topology(
      "name = \"x\"\nurl = \"x://{hosts}\"\n[server]\ncommand = [\"s\", \"{port}\"]\n"
      "leader = [\"l\"]\nnodes = [1, 3]\npeer = \"{port}\"\nkeeps = \"everything\"\n"
      "[[cell]]\nname = \"kill\"\ncalm = \"3s\"\n",
      "t.toml");
  EXPECT_TRUE(topology) << topology.error().message();
  on.store.topology = "t.toml";
  on.topology = *topology;
  return on;
}

Scenario cell_named(const std::vector<Scenario>& cells, const std::string& name) {
  std::vector<Scenario> found;
  std::copy_if(cells.begin(), cells.end(), std::back_inserter(found),
               [&](const Scenario& cell) { return cell.name == name; });
  EXPECT_EQ(found.size(), 1U) << name;
  return found.at(0);
}

TEST(MatrixTest, TwoThreadsOfOneClientContendInEveryMixedCell) {
  for (const std::string store : {"memory", "sqlite", "redis"}) {
    for (const Scenario& cell : cells_of(store, 1)) {
      const bool several =
          std::any_of(cell.workloads.begin(), cell.workloads.end(), [](const WorkloadSpec& work) {
            return work.owners > 1 && (work.kind == "contend" || work.kind == "long-hold");
          });
      EXPECT_TRUE(several) << cell.name;
    }
  }
}

// The order of tokens is the judge's to leave out there, and nothing else is.
TEST(MatrixTest, WhereTokensNeedNotGrowNoCellExcusesMore) {
  constexpr auto kV0 = static_cast<std::size_t>(Class::kV0);
  constexpr auto kBeliefs = static_cast<std::size_t>(Class::kV1);
  for (const Scenario& cell : cells_of("memcached", 1)) {
    EXPECT_EQ(cell.expect[kV0], Expected::kNone) << cell.name;
    const bool forgets = cell.name == "memcached-restart-empty";
    EXPECT_EQ(cell.expect[kBeliefs], forgets ? Expected::kMust : Expected::kNone) << cell.name;
  }
}

TEST(MatrixTest, HasCellsOfEverySizeAndATopologysOwnInThePlaceOfOthers) {
  const std::vector<Scenario> cells = matrix_cells(on_a_cluster());
  EXPECT_EQ(nodes_of(cell_named(cells, "x-restart")), 1);
  const Scenario three = cell_named(cells, "x-3-nodes-restart");
  EXPECT_EQ(nodes_of(three), 3);
  EXPECT_FALSE(three.store.durable);  // It keeps everything without being told.
  EXPECT_TRUE(three.store.proxy);
  EXPECT_EQ(cell_named(cells, "x-kill").calm, 3s);
  for (const std::string role : {"leader", "follower"}) {
    for (const std::string fault : {"pause", "kill", "partition"}) {
      const Scenario cell = cell_named(cells, "x-3-nodes-" + role + "-" + fault);
      EXPECT_EQ(cell.nemeses.at(0).target, role);
      EXPECT_TRUE(check_again(cell)) << cell.name;
    }
  }
}

TEST(ScheduleTest, HitsEveryNodeOfAClusterOrTheOneThatIsNamed) {
  Scenario cell = cell_named(matrix_cells(on_a_cluster()), "x-3-nodes-restart");
  const auto nodes = [&] {
    std::set<std::uint32_t> hit;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      cell.seed = seed;
      for (const Strike& strike : schedule(cell)) hit.insert(strike.node);
    }
    return hit;
  };
  EXPECT_EQ(nodes(), (std::set<std::uint32_t>{1, 2, 3}));
  cell.nemeses[0].target = "2";
  EXPECT_EQ(nodes(), (std::set<std::uint32_t>{2}));
  cell.nemeses[0].target = "leader";
  EXPECT_EQ(nodes(), (std::set<std::uint32_t>{kLeader}));
  cell.nemeses[0].target = "follower";
  EXPECT_EQ(nodes(), (std::set<std::uint32_t>{kFollower}));
  cell.nemeses[0].target = "all";
  const std::vector<Strike> all = schedule(cell);
  ASSERT_GE(all.size(), 3U);
  EXPECT_EQ(all[0].at, all[2].at);
}

TEST(ScheduleTest, AMemberOfANodeIsHitAlone) {
  Scenario cell = cell_named(cells_of("holdfast-etcd", 1), "holdfast-etcd-etcd-leader-kill");
  cell.store.network = true;
  for (const std::string kind : {"server-pause", "restart", "isolate", "partition"}) {
    cell.nemeses[0].kind = kind;
    for (const auto& [target, node] :
         {std::pair{"member-leader", kLeader}, std::pair{"member-follower", kFollower}}) {
      cell.nemeses[0].target = target;
      EXPECT_TRUE(check_again(cell)) << kind << " of " << target;
      const std::vector<Strike> strikes = schedule(cell);
      ASSERT_FALSE(strikes.empty());
      for (const Strike& strike : strikes) {
        EXPECT_TRUE(strike.member);
        EXPECT_EQ(strike.node, node);
      }
    }
  }
  cell.store.network = false;
  EXPECT_EQ(check_again(cell).error().message(),
            "the nemesis partition of a member needs network = true in [store]");
  cell.nemeses[0].kind = "move";
  EXPECT_NE(check_again(cell).error().message().find("needs move in [server]"), std::string::npos);
}

TEST(ScheduleTest, WhereNoNodeHasAMemberNoneIsATarget) {
  Scenario cell = cell_named(matrix_cells(on_a_cluster()), "x-3-nodes-restart");
  cell.nemeses[0].target = "member-leader";
  EXPECT_EQ(check_again(cell).error().message(),
            "target in [[nemesis]] is 'member-leader'; it may be: any, all, leader, follower, or a "
            "number from 1 to 3");
  cell = cell_named(cells_of("holdfast-etcd", 1), "holdfast-etcd-etcd-leader-kill");
  cell.nemeses[0].target = "member-any";
  EXPECT_EQ(check_again(cell).error().message(),
            "target in [[nemesis]] is 'member-any'; it may be: any, all, leader, follower, "
            "member-leader, member-follower, or a number from 1 to 3");
}

TEST(ScheduleTest, OneWayOfAClientOrOfEachClientIsCut) {
  Scenario cell = cell_named(matrix_cells(on_a_cluster()), "x-3-nodes-partition-node");
  cell.nemeses[0].from = "one";
  for (const std::string target : {"any", "all"}) {
    cell.nemeses[0].target = target;
    EXPECT_TRUE(check_again(cell));
    std::set<std::uint32_t> clients;
    std::set<std::uint32_t> nodes;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      cell.seed = seed;
      std::map<std::uint32_t, milliseconds> until;  // A client's faults of one kind are one mark.
      for (const Strike& strike : schedule(cell)) {
        EXPECT_GE(strike.at, until[strike.slot]);
        until[strike.slot] = strike.at + strike.lasts;
        clients.insert(strike.slot);
        nodes.insert(strike.node);
      }
    }
    EXPECT_EQ(clients, (std::set<std::uint32_t>{1, 2, 3, 4})) << target;
    EXPECT_EQ(nodes, (std::set<std::uint32_t>{1, 2, 3})) << target;
  }
}

TEST(ScheduleTest, AllWaysToOneNodeOfAClusterAreCut) {
  Scenario cell = cell_named(matrix_cells(on_a_cluster()), "x-3-nodes-partition-node");
  std::set<std::uint32_t> nodes;
  for (const Strike& strike : schedule(cell)) {
    EXPECT_EQ(strike.slot, 0U);
    nodes.insert(strike.node);
  }
  EXPECT_GE(nodes.size(), 2U);
  cell.nemeses[0].target = "node 2";
  for (const Strike& strike : schedule(cell)) EXPECT_EQ(strike.node, 2U);
  EXPECT_TRUE(check_again(cell));
  cell.nemeses[0].target = "leader";
  for (const Strike& strike : schedule(cell)) EXPECT_EQ(strike.node, kLeader);
  EXPECT_TRUE(check_again(cell));
  for (const std::string target : {"node 4", "node 0", "node", "node x"}) {
    cell.nemeses[0].target = target;
    const auto fine = check_again(cell);
    ASSERT_FALSE(fine) << target;
    EXPECT_EQ(fine.error().message(),
              "target in [[nemesis]] is '" + target +
                  "'; it may be: any, all, leader, follower, node any, node 1 to node 3, or a "
                  "number from 1 to 4");
  }
}

TEST(ScenarioTest, WhatIsKeptShowsNoPassword) {
  const auto topology = read_topology(
      "name = \"x\"\nurl = \"redis://:s3cr%40t@127.0.0.1:{port}\"\n[server]\n"
      "command = [\"s\", \"-a\", \"s3cr@t\"]\n[server.files]\n"
      "conf = \"\"\"\nport {port}\nrequirepass s3cr@t\n\"\"\"\n",
      "t.toml");
  ASSERT_TRUE(topology) << topology.error().message();
  Scenario scenario;
  scenario.topology = *topology;
  scenario.store.options = "ttl=3s&password=geheim99&ns=a";
  scenario.store.url = "redis://me:other5@h/0";
  const Scenario shown = without_secrets(scenario);
  EXPECT_EQ(shown.store.options, "ttl=3s&ns=a");
  EXPECT_EQ(shown.store.url, "redis://h/0");
  EXPECT_EQ(shown.topology->text.find("s3cr"), std::string::npos) << shown.topology->text;
  EXPECT_TRUE(read_topology(shown.topology->text, "t.toml"));
  EXPECT_EQ(without(secrets_of(scenario), "-a s3cr@t said geheim99 or other5."),
            "-a (not shown) said (not shown) or (not shown).");
}

TEST(PaceTest, ReservesWhatALongRunMayUseAndNoMore) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  for (const Scenario& cell : cells_of("redis", 1)) {
    const Pace brief = Pace::of(cell, 0, 14 * kSecond);
    const Pace day = Pace::of(cell, 0, 86'400 * kSecond);
    EXPECT_LT(brief.room, day.room) << cell.name;
    EXPECT_LT(day.room, 700'000U) << cell.name;
    // The successor of a killed process goes on where that was.
    EXPECT_LE(day.after(500'000).capacity() + 450'000, day.capacity()) << cell.name;
    EXPECT_TRUE(day.after(500'000).is_ahead(0, 43'200 * kSecond)) << cell.name;
    EXPECT_GT(day.after(800'000).capacity(), 1000U) << cell.name;
    EXPECT_FALSE(brief.is_ahead(brief.room / 11, 0));
    EXPECT_TRUE(brief.is_ahead(brief.room / 9, 0));
    EXPECT_TRUE(brief.is_ahead(brief.room * 10 / 11, 14 * kSecond));
  }
}

// By each nemesis of the scenario, but for those that wait for a point.
void expect_all_strike(const Scenario& scenario) {
  std::vector<std::size_t> strikes(scenario.nemeses.size());
  for (const Strike& strike : schedule(scenario)) ++strikes[strike.nemesis];
  for (std::size_t i = 0; i < strikes.size(); ++i) {
    if (!scenario.nemeses[i].at.empty()) continue;
    EXPECT_GT(strikes[i], 0U) << scenario.nemeses[i].kind << " of " << scenario.name << ", seed "
                              << scenario.seed << ", " << scenario.duration.count() << " ms";
  }
}

TEST(ScheduleTest, EveryNemesisOfEveryCellStrikes) {
  for (const std::string store :
       {"memory", "sqlite", "redis", "holdfast", "holdfast-etcd", "holdfast-shards"}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      for (const Scenario& cell : cells_of(store, seed)) expect_all_strike(cell);
    }
  }
}

TEST(ScheduleTest, EveryNemesisOfEveryScenarioStrikes) {
  std::size_t looked_at = 0;
  for (const auto& file : std::filesystem::directory_iterator(HOLDFAST_LAB_SCENARIOS)) {
    const Result<Scenario> scenario = read_scenario_file(file.path());
    ASSERT_TRUE(scenario) << scenario.error().message();
    expect_all_strike(*scenario);
    ++looked_at;
  }
  EXPECT_GT(looked_at, 5U);
  // As the short matrix runs them: PATH=16s ...
  std::istringstream runs(HOLDFAST_LAB_RUNS);
  for (std::string run; runs >> run; --looked_at) {
    const std::size_t equals = run.find('=');
    const std::filesystem::path file(run.substr(0, equals));
    Result<Scenario> scenario = read_scenario_file(HOLDFAST_LAB_SCENARIOS / file.filename());
    ASSERT_TRUE(scenario) << scenario.error().message();
    scenario->duration = std::chrono::seconds(std::stoi(run.substr(equals + 1)));
    expect_all_strike(*scenario);
  }
}

TEST(ScheduleTest, ANemesisForWhichThereIsNoTimeIsNamed) {
  Scenario cell = cells_of("memory", 1).at(3);
  EXPECT_EQ(never_strikes(cell), std::nullopt);
  cell.nemeses[1].first = 1h;
  EXPECT_EQ(never_strikes(cell),
            "the nemesis pause can never strike: first, and after it lasts, do not fit into "
            "duration less calm, 7000 ms");
  cell.nemeses[1].first = 1s;
  cell.nemeses[1].lasts = 1h;
  EXPECT_NE(never_strikes(cell), std::nullopt);
}

}  // namespace
}  // namespace holdfast::lab
