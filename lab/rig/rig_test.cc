#include "lab/rig/rig.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

#include "lab/rig/targets.h"
#include "lab/scenario/topology_files.h"

namespace holdfast::lab {
namespace {

// No server at all: it tells what it was told, and stays.
constexpr char kTeller[] =
    "name = \"teller\"\nurl = \"x://{hosts}/{port}\"\n"
    "version = [\"echo\", \"2 Teller v=7.0.15 of 1.2.3.\"]\n[server]\n"
    "command = [\"sh\", \"-c\", \"echo $$ {node}/{nodes} {port} {peers} $* >{folder}/told; "
    "exec sleep 1000\", \"sh\"]\n"
    "ready = [\"test\", \"-s\", \"{folder}/told\"]\n"
    "nodes = [1, 3]\nports = [\"peer_port\"]\npeer = \"{node}={peer_port}\"\n"
    "durable = [\"--on-disk\"]\nsave = [\"touch\", \"{folder}/saved\"]\n"
    "[server.files]\n\"s.cfg\" = \"port {port}\"\n";

Scenario on(const std::string& topology, std::int64_t nodes = 1) {
  Scenario scenario;
  auto read = read_topology(topology, "t.toml");
  EXPECT_TRUE(read) << read.error().message();
  scenario.topology = *read;
  scenario.store.nodes = nodes;
  scenario.store.proxy = true;
  scenario.clients.processes = 2;
  return scenario;
}

std::string what_is_wrong_with(const std::string& topology) {
  const support::TempFolder folder("rig");
  const Scenario scenario = on(topology, 0);
  try {
    const Rig rig(scenario, folder.path());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "it was built";
}

// 'T': stopped; 'Z', or 0 when there is none: gone.
char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  return name_end == text.npos ? '\0' : text.at(name_end + 2);
}

bool becomes(pid_t pid, std::string_view states) {
  for (int looks = 0; looks < 6000; ++looks) {
    if (states.find(state_of(pid)) != states.npos) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

constexpr std::string_view kGone("Z\0", 2);

class RigTest : public testing::Test {
 protected:
  std::string file(int node, const std::string& name) const {
    return folder_.path() + "/store/node-" + std::to_string(node) + "/" + name;
  }
  // The words of what the teller was told.
  std::vector<std::string> told(int node) const { return told("node-" + std::to_string(node)); }
  std::vector<std::string> told(const std::string& node) const {
    std::ifstream stream(folder_.path() + "/store/" + node + "/told");
    return {std::istream_iterator<std::string>(stream), {}};
  }
  bool exists(int node, const std::string& name) const {
    return std::filesystem::exists(file(node, name));
  }

  support::TempFolder folder_{"rig"};
};

TEST_F(RigTest, NodesAreToldOfEachOtherAndClientsOfTheWaysToAll) {
  const Scenario scenario = on(kTeller, 3);
  Rig rig(scenario, folder_.path());
  const std::vector<std::string> second = told(2);
  ASSERT_EQ(second.size(), 4U);
  EXPECT_EQ(second[1], "2/3");
  EXPECT_EQ(second[3].substr(0, 2), "1=");
  EXPECT_NE(second[3].find(",3="), std::string::npos);
  EXPECT_EQ(told(3)[3], second[3]);
  std::ifstream config(file(2, "s.cfg"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(config), {}), "port " + second[2]);

  ASSERT_EQ(rig.links(1).size(), 3U);
  const auto port = [&](std::size_t node) { return std::to_string(rig.links(1)[node]->port()); };
  EXPECT_EQ(rig.urls(1).at(0), "x://127.0.0.1:" + port(0) + ",127.0.0.1:" + port(1) +
                                   ",127.0.0.1:" + port(2) + "/" + port(0));
  EXPECT_NE(rig.urls(2), rig.urls(1));
  EXPECT_EQ(rig.store(), "teller");
  EXPECT_EQ(rig.version(), "7.0.15");
  EXPECT_EQ(target_names(scenario).back(), "server 3");
}

TEST_F(RigTest, ARestartKeepsOrLosesWhatTheServerKnew) {
  Scenario scenario = on(kTeller);
  Rig rig(scenario, folder_.path());
  const std::string first = told(1).at(0);
  rig.stop_server(1, /*with_memory=*/true);
  EXPECT_TRUE(exists(1, "saved"));
  std::filesystem::remove(file(1, "told"));  // Makes it ready.
  rig.start_server(1, /*with_memory=*/true);
  EXPECT_TRUE(exists(1, "saved"));
  EXPECT_NE(told(1).at(0), first);
  rig.stop_server(1, /*with_memory=*/false);
  rig.start_server(1, /*with_memory=*/false);
  EXPECT_FALSE(exists(1, "saved"));
}

TEST_F(RigTest, ADurableServerIsToldSoAndIsKilledWithoutAWord) {
  Scenario scenario = on(kTeller);
  scenario.store.durable = true;
  Rig rig(scenario, folder_.path());
  EXPECT_EQ(told(1).at(4), "--on-disk");
  rig.stop_server(1, /*with_memory=*/true);
  EXPECT_FALSE(exists(1, "saved"));
}

TEST_F(RigTest, ANodeThatStartsIsNotWaitedForWhileOthersCannotAnswer) {
  std::string topology = kTeller;
  const std::string save = "save =";
  topology.insert(topology.find(save), "patience = \"500ms\"\n");
  const Scenario scenario = on(topology, 3);
  Rig rig(scenario, folder_.path());
  rig.stop_server(1, /*with_memory=*/false);
  rig.pause_server(2);
  std::filesystem::remove(file(2, "told"));  // Makes it ready.
  rig.start_server(1, /*with_memory=*/false);
  rig.resume_server(2);
  rig.stop_server(1, /*with_memory=*/false);
  EXPECT_THROW(rig.start_server(1, /*with_memory=*/false), std::runtime_error);
}

TEST_F(RigTest, WithoutASmallDiskTheTopologyTakesTheRoomAndGivesItBack) {
  std::string topology = kTeller;
  topology.insert(topology.find("nodes ="),
                  "fill = [\"touch\", \"{folder}/full\"]\nfree = [\"rm\", \"{folder}/full\"]\n");
  const Scenario scenario = on(topology, 3);
  Rig rig(scenario, folder_.path());
  rig.fill();
  EXPECT_TRUE(exists(1, "full"));
  EXPECT_FALSE(exists(2, "full"));
  rig.make_room();
  EXPECT_FALSE(exists(1, "full"));
}

TEST_F(RigTest, TheLeaderIsWhoSaysSoAndWorks) {
  std::string topology = kTeller;
  topology.insert(topology.find("save ="), "leader = [\"test\", \"-e\", \"{folder}/leads\"]\n");
  const Scenario scenario = on(topology, 3);
  Rig rig(scenario, folder_.path());
  EXPECT_EQ(rig.leader(), 1U);  // Somebody.
  for (const int node : {2, 3}) std::ofstream(file(node, "leads"));
  EXPECT_EQ(rig.leader(), 2U);
  EXPECT_EQ(rig.follower(), 3U);
  rig.pause_server(2);
  EXPECT_EQ(rig.leader(), 3U);
  EXPECT_EQ(rig.follower(), 1U);
}

// Each node has a member, which tells the same, and the nodes know where those are.
std::string with_members() {
  std::string topology = kTeller;
  topology.replace(topology.find("{peers} $*"), 10, "{peers} {members} $*");
  return topology +
         "[member]\ncommand = [\"sh\", \"-c\", \"echo $$ {node}/{nodes} {port} {peers} "
         ">{folder}/told; exec sleep 1000\"]\nready = [\"test\", \"-s\", \"{folder}/told\"]\n"
         "peer = \"{node}@{port}\"\nleader = [\"test\", \"-e\", \"{folder}/leads\"]\n";
}

TEST_F(RigTest, AMemberIsHitAloneOrWithItsNode) {
  const Scenario scenario = on(with_members(), 3);
  Rig rig(scenario, folder_.path());
  const auto pid = [&](const std::string& name) { return std::stoi(told(name).at(0)); };
  const std::vector<std::string> member = told("member-2");
  EXPECT_EQ(member.at(1), "2/3");
  EXPECT_EQ(member.at(3),
            "1@" + told("member-1").at(2) + ",2@" + member.at(2) + ",3@" + told("member-3").at(2));
  EXPECT_EQ(told(1).at(4), "127.0.0.1:" + told("member-1").at(2) + ",127.0.0.1:" + member.at(2) +
                               ",127.0.0.1:" + told("member-3").at(2));
  EXPECT_EQ(target_names(scenario).at(member_target(scenario, 3)), "member 3");

  std::ofstream(folder_.path() + "/store/member-2/leads");
  EXPECT_EQ(rig.leading_member(), 2U);
  EXPECT_EQ(rig.following_member(), 3U);
  rig.pause_member(3);
  EXPECT_TRUE(becomes(pid("member-3"), "T"));
  EXPECT_TRUE(becomes(pid("node-3"), "S"));
  EXPECT_EQ(rig.following_member(), 1U);
  rig.resume_member(3);
  rig.pause_server(1);
  EXPECT_TRUE(becomes(pid("member-1"), "T"));
  EXPECT_TRUE(becomes(pid("node-1"), "T"));
  rig.resume_server(1);
  EXPECT_TRUE(becomes(pid("member-1"), "S"));

  const pid_t first = pid("member-2");
  const pid_t server = pid("node-2");
  rig.kill_member(2);
  EXPECT_TRUE(becomes(first, kGone));
  EXPECT_TRUE(becomes(server, "S"));
  EXPECT_NO_THROW(rig.look_after());
  std::filesystem::remove(folder_.path() + "/store/member-2/told");  // Makes it ready.
  rig.start_member(2);
  const pid_t second = pid("member-2");
  EXPECT_NE(second, first);
  rig.stop_server(2, /*with_memory=*/true);
  EXPECT_TRUE(becomes(second, kGone));
  rig.start_server(2, /*with_memory=*/true);
  ::kill(pid("member-3"), SIGKILL);
  EXPECT_TRUE(becomes(pid("member-3"), kGone));
  try {
    rig.look_after();
    ADD_FAILURE() << "nobody saw it";
  } catch (const NodeFailed& failure) {
    EXPECT_STREQ(failure.what(), "the member 3 of the topology 'teller' ended by itself with -9");
    EXPECT_EQ(failure.log(), folder_.path() + "/member-3.log");
  }
}

TEST_F(RigTest, TheLeaderOfSeveralShardsIsThatOfTheNextLocksShard) {
  std::string topology = kTeller;
  topology.insert(topology.find("save ="),
                  "shards = 8\n"
                  "leader = [\"test\", \"-e\", \"{folder}/leads-{shard}-of-{shards}\"]\n");
  const Scenario scenario = on(topology, 3);
  Rig rig(scenario, folder_.path(), {}, {5, 0});
  std::ofstream(file(3, "leads-5-of-8"));
  std::ofstream(file(2, "leads-0-of-8"));
  EXPECT_EQ(rig.leader(), 3U);
  EXPECT_EQ(rig.leader(), 2U);
  EXPECT_EQ(rig.follower(), 1U);  // It does not lead shard 5, as another one does.
  EXPECT_EQ(rig.leader(), 2U);
}

TEST_F(RigTest, AStartThatIsInterruptedLeavesNothing) {
  std::string topology = kTeller;
  topology.replace(topology.find("/told\"]"), 7, "/never\"]");
  const Scenario scenario = on(topology);
  int looks = 0;
  const auto waiting = [&] {
    if (std::filesystem::exists(file(1, "told")) && ++looks == 3) throw std::invalid_argument("x");
  };
  EXPECT_THROW(Rig(scenario, folder_.path(), waiting), std::invalid_argument);
  EXPECT_NE(::kill(std::stoi(told(1).at(0)), 0), 0);
}

TEST_F(RigTest, NothingIsLeftRunning) {
  const Scenario scenario = on(kTeller, 3);
  std::vector<pid_t> pids;
  {
    const Rig rig(scenario, folder_.path());
    for (const int node : {1, 2, 3}) pids.push_back(std::stoi(told(node).at(0)));
    for (const pid_t pid : pids) EXPECT_EQ(::kill(pid, 0), 0);
  }
  for (const pid_t pid : pids) EXPECT_NE(::kill(pid, 0), 0);
}

// A shell in front of the server, which stays.
std::string wrapped(const std::string& server) {
  return "name = \"wrapped\"\nurl = \"x://{port}\"\n[server]\n"
         "command = [\"sh\", \"-c\", \"" +
         server +
         "\", \"{port}\"]\n"
         "ready = [\"test\", \"-s\", \"{folder}/told\"]\n";
}

// A shell that has just made a process by vfork(2) does not count as stopped before that one goes
// on.
constexpr char kBehindAShell[] = "sh -c 'echo $$ >{folder}/told; exec sleep 1000'; true";

TEST_F(RigTest, AServerBehindAShellIsStoppedAndEndedWithIt) {
  const Scenario scenario = on(wrapped(kBehindAShell) + "save = [\"rm\", \"{folder}/told\"]\n");
  pid_t last = 0;
  {
    Rig rig(scenario, folder_.path());
    const pid_t first = std::stoi(told(1).at(0));
    rig.pause_server(1);
    EXPECT_TRUE(becomes(first, "T"));
    rig.resume_server(1);
    EXPECT_TRUE(becomes(first, "S"));
    rig.stop_server(1, /*with_memory=*/true);
    EXPECT_NE(kGone.find(state_of(first)), kGone.npos);
    rig.start_server(1, /*with_memory=*/true);
    last = std::stoi(told(1).at(0));
    EXPECT_NE(last, first);
  }
  EXPECT_TRUE(becomes(last, kGone));
}

TEST_F(RigTest, WhatAServerThatEndsLeftBehindEndsWithIt) {
  const Scenario scenario = on(wrapped("sleep 1000 & echo $! >{folder}/told; exit 0"));
  EXPECT_THROW(
      {
        Rig rig(scenario, folder_.path());
        for (;;) rig.look_after();
      },
      NodeFailed);
  EXPECT_TRUE(becomes(std::stoi(told(1).at(0)), kGone));
}

TEST_F(RigTest, AServerThatEndsByItselfIsNamed) {
  const Scenario scenario = on(kTeller, 3);
  Rig rig(scenario, folder_.path());
  rig.stop_server(3, /*with_memory=*/false);
  EXPECT_NO_THROW(rig.look_after());  // As somebody wanted it.
  ::kill(std::stoi(told(2).at(0)), SIGKILL);
  EXPECT_TRUE(becomes(std::stoi(told(2).at(0)), kGone));
  try {
    rig.pause_server(2);
    ADD_FAILURE() << "it was stopped";
  } catch (const NodeFailed& failure) {
    EXPECT_STREQ(failure.what(), "the server 2 of the topology 'teller' ended by itself with -9");
    EXPECT_EQ(failure.node(), "node-2");
    EXPECT_EQ(failure.log(), folder_.path() + "/node-2.log");
  }
}

TEST_F(RigTest, AHangingQuestionIsNotWaitedForLongerThanPatience) {
  std::string topology = kTeller;
  const std::string ready = "[\"test\", \"-s\", \"{folder}/told\"]";
  topology.replace(topology.find(ready), ready.size(),
                   "[\"sh\", \"-c\", \"yes | head -c 100000; sleep 1000\"]\npatience = \"300ms\"");
  const auto begin = std::chrono::steady_clock::now();
  const std::string said = what_is_wrong_with(topology);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, support::kPatience / 2);
  EXPECT_NE(said.find("does not get ready: sh -c "), said.npos) << said;
  EXPECT_LT(said.size(), 10'000U);

  topology.replace(topology.find("300ms"), 5, "10m");
  const Scenario scenario = on(topology);
  int looks = 0;
  const auto waiting = [&] {
    if (++looks == 3) throw std::invalid_argument("interrupted");
  };
  EXPECT_THROW(Rig(scenario, folder_.path(), waiting), std::invalid_argument);
}

TEST_F(RigTest, AQuestionThatHangsIsAskedAgain) {
  std::string topology = kTeller;
  const std::string ready = "[\"test\", \"-s\", \"{folder}/told\"]";
  topology.replace(topology.find(ready), ready.size(),
                   "[\"sh\", \"-c\", \"test -e {folder}/asked && exec test -s {folder}/told; "
                   "touch {folder}/asked; sleep 1000\"]\npatience = \"1m\"");
  const auto begin = std::chrono::steady_clock::now();
  const Scenario scenario = on(topology);
  const Rig rig(scenario, folder_.path());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
}

TEST(RigStartTest, SaysWhatIsNotInstalledAndWhatTheServerSaid) {
  const auto with = [](const std::string& server) {
    return what_is_wrong_with("name = \"x\"\nurl = \"x://{port}\"\n[server]\n" + server);
  };
  EXPECT_EQ(with("command = [\"no-such-server\", \"{port}\"]\n"),
            "no-such-server of the topology 'x' is not installed: there is no such program in PATH "
            "(HOLDFAST_NO_SUCH_SERVER may name another)");
  EXPECT_EQ(with("command = [\"sh\", \"-c\", \"echo no luck; exit 3\", \"{port}\"]\n"),
            "the server of the topology 'x' ended with 3 instead of starting; it said:\nno luck\n");
  EXPECT_EQ(with("command = [\"sh\", \"-c\", \"echo deaf; exec sleep 1000\", \"{port}\"]\n"
                 "patience = \"200ms\"\n"),
            "the server of the topology 'x' does not get ready: it accepts no connection; it "
            "said:\ndeaf\n");
  const std::string asks = with(
      "command = [\"sleep\", \"1000\", \"{port}\"]\npatience = \"200ms\"\n"
      "ready = [\"sh\", \"-c\", \"echo not yet; exit 1\"]\n");
  EXPECT_NE(asks.find("not yet"), std::string::npos) << asks;
}

TEST(RigStartTest, AVariableMayNameAnotherProgram) {
  ::setenv("HOLDFAST_SOME_SERVER_2", "env A=b sh", 1);
  EXPECT_EQ(what_is_wrong_with(
                "name = \"x\"\nurl = \"x://{port}\"\n[server]\n"
                "command = [\"some-server-2\", \"-c\", \"echo $A; exit 3\", \"{port}\"]\n"),
            "the server of the topology 'x' ended with 3 instead of starting; it said:\nb\n");
  ::unsetenv("HOLDFAST_SOME_SERVER_2");
}

}  // namespace
}  // namespace holdfast::lab
