#include "lab/scenario/topology.h"

#include <string>

#include <gtest/gtest.h>

#include "lab/scenario/files.h"
#include "lab/scenario/placeholders.h"
#include "lab/scenario/topology_files.h"

namespace holdfast::lab {
namespace {

const std::string kHead = "name = \"x\"\nurl = \"x://{hosts}\"\n";
const std::string kServer = "[server]\ncommand = [\"serve\", \"{port}\"]\n";

std::string complaint_about(const std::string& text) {
  const auto topology = read_topology(text, "t.toml");
  return topology ? "it was taken" : topology.error().message();
}

TEST(PlaceholdersTest, AreFilledInAndOtherBracesStay) {
  const Values values = {{"port", "7"}, {"folder", "/f"}};
  EXPECT_EQ(filled("-p {port} {folder}/{port}", values), "-p 7 /f/7");
  EXPECT_EQ(filled("{} { port } {\"a\": {port}} {PORT} {1} {", values),
            "{} { port } {\"a\": 7} {PORT} {1} {");
  EXPECT_EQ(filled("${port} {{port}}", values), "${port} {7}");
  EXPECT_EQ(filled("{other}", values), "{other}");
  EXPECT_EQ(placeholders("{a}{b_c} ${d} {e"), (std::vector<std::string>{"a", "b_c"}));
}

TEST(TopologyTest, ThoseOfTheLabAreTakenUnderTheNamesOfTheirFiles) {
  for (const std::string& name : shipped_topologies()) {
    const TopologyPointer topology = shipped_topology(name);
    ASSERT_NE(topology, nullptr) << name;
    EXPECT_EQ(topology->name, name);
    EXPECT_FALSE(topology->about.empty()) << name;
  }
  EXPECT_GE(shipped_topologies().size(), 3U);
  EXPECT_EQ(shipped_topology("no-such"), nullptr);
}

TEST(TopologyTest, OfAClusterHasSizesPortsFilesAndPeers) {
  const auto topology = read_topology(
      kHead + kServer +
          "ports = [\"peer_port\"]\nnodes = [1, 3]\nbetween_peers = \";\"\n"
          "peer = \"{node}={peer_port}\"\n[server.files]\n\"s.cfg\" = \"me={node}\\nall={peers}\"\n"
          "[[cell]]\nname = \"three\"\n[cell.store]\nnodes = 3\n[[cell.nemesis]]\n"
          "kind = \"server-pause\"\ntarget = \"2\"\n",
      "t.toml");
  ASSERT_TRUE(topology) << topology.error().message();
  const ServerSpec& server = *(*topology)->server;
  EXPECT_EQ(server.nodes, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(server.files.at(0).first, "s.cfg");
  const Cell& cell = (*topology)->cells.at(0);
  EXPECT_EQ(cell.what.store.nodes, 3);
  EXPECT_TRUE(cell.what.store.proxy);
}

TEST(TopologyTest, AMemberIsToldOfTheOthersAndServersOfAll) {
  const std::string served = kHead + "[server]\ncommand = [\"serve\", \"{port}\", \"{members}\"]\n";
  const std::string member =
      "[member]\ncommand = [\"m\", \"{raft}\", \"{peers}\"]\nleader = [\"l\"]\n"
      "ports = [\"raft\"]\npeer = \"{host}:{raft}\"\n";
  const auto topology = read_topology(served + member, "t.toml");
  ASSERT_TRUE(topology) << topology.error().message();
  EXPECT_EQ((*topology)->member->ports, std::vector<std::string>{"raft"});
  EXPECT_NE(complaint_about(served).find("{members} in command is not known"), std::string::npos);
  EXPECT_EQ(complaint_about(served + member + "keeps = \"everything\"\n"),
            "t.toml:10: the key 'keeps' in [member] is not known; there are: command, ready, "
            "patience, ports, peer, between_peers, leader");
  EXPECT_EQ(complaint_about(served + "[member]\nleader = [\"l\", \"{shards}\"]\n"),
            "t.toml:6: {shards} in leader is not known; there are: {port}, {host}, {folder}, "
            "{node}, {nodes}, {peers}");
}

TEST(TopologyTest, AVariantHasWhatItsBaseHasAndItDoesNotSay) {
  const auto variant = read_topology(
      "base = \"holdfast-etcd\"\nname = \"mine\"\n[server]\nshards = 4\n[server.files]\n"
      "\"password\" = \"x\"\n",
      "t.toml");
  ASSERT_TRUE(variant) << variant.error().message();
  const TopologyPointer base = shipped_topology("holdfast-etcd");
  const ServerSpec& server = *(*variant)->server;
  EXPECT_EQ((*variant)->name, "mine");
  EXPECT_EQ((*variant)->url, base->url);
  EXPECT_EQ(server.shards, 4);
  EXPECT_EQ(server.command, base->server->command);
  EXPECT_EQ(server.files.at(0).second, "x");
  EXPECT_EQ(server.files.at(1), base->server->files.at(1));
  EXPECT_EQ((*variant)->cells.size(), base->cells.size());

  EXPECT_EQ(complaint_about("name = \"x\"\nbase = \"holdfast-ectd\"\n").substr(0, 79),
            "t.toml:2: base is 'holdfast-ectd', which is no topology of the lab; it may be: ");
  EXPECT_EQ(complaint_about("base = 1\n" + kHead), "t.toml:1: base must be text in quotes");
}

TEST(TopologyTest, AComplaintNamesFileLineKeyAndWhatToDo) {
  const std::string whole = kHead + kServer;
  EXPECT_EQ(complaint_about(whole), "it was taken");
  EXPECT_EQ(complaint_about(whole + "redy = [\"x\"]\n"),
            "t.toml:5: the key 'redy' in [server] is not known; did you mean ready?");
  EXPECT_EQ(complaint_about(whole + "ready = \"ask {port}\"\n"),
            "t.toml:5: ready in [server] must be a list of texts: [\"program\", \"argument\"]");
  EXPECT_EQ(complaint_about(whole + "ready = [\"ask\", \"{prot}\"]\n"),
            "t.toml:5: {prot} in ready is not known; did you mean {port}?");
  EXPECT_EQ(complaint_about(whole + "[server.files]\n\"a\" = \"{xyzzy}\"\n"),
            "t.toml:6: {xyzzy} in a is not known; there are: {port}, {host}, {folder}, {node}, "
            "{nodes}, {peers}, {shards}");
  EXPECT_EQ(complaint_about(whole + "leader = [\"ask\", \"{shard}\"]\n"), "it was taken");
  EXPECT_EQ(complaint_about(whole + "ready = [\"ask\", \"{shard}\"]\n"),
            "t.toml:5: {shard} in ready is not known; did you mean {shards}?");
  EXPECT_EQ(complaint_about(whole + "framing = \"rasp\"\n"),
            "t.toml:5: framing in [server] is 'rasp' (did you mean resp?); it may be: raw, resp");
  EXPECT_EQ(complaint_about(whole + "nodes = 3\n"),
            "t.toml:5: nodes in [server] must be a list of numbers from 1 to 9: [1, 3]");
  EXPECT_EQ(complaint_about(whole + "[[cell]]\nname = \"a\"\n[[cell.nemesis]]\nkind = \"kil\"\n"),
            "t.toml:8: kind in [[nemesis]] is 'kil' (did you mean kill?); it may be: kill, pause, "
            "starve, partition, blackhole, loss, delay, hold, duplicate, reorder, drop-replies, "
            "split, reset, server-pause, restart, restart-empty, failover, clock-jump, disk-full, "
            "isolate, move");
  EXPECT_EQ(complaint_about("name = x"),
            "t.toml:1: not TOML: " + complaint_about("name = x").substr(20));
}

TEST(TopologyTest, WhatDoesNotFitTogetherIsRefused) {
  const std::string whole = kHead + kServer;
  const auto says = [](const std::string& text, const std::string& words) {
    const std::string complaint = complaint_about(text);
    EXPECT_NE(complaint.find(words), std::string::npos) << complaint;
  };
  says("url = \"x:\"\n", "name is missing");
  says("name = \"a/b\"\nurl = \"x:\"\n", "name may have letters");
  says("name = \"" + std::string(40, 'a') + "\"\nurl = \"x:\"\n", "not be longer than 31");
  says("name = \"x\"\n", "url is missing");
  says("name = \"x\"\nurl = \"x://{port}\"\n", "{port} in url is not known");
  says("name = \"x\"\nurl = \"x:\"\n" + kServer, "url does not say where the server is");
  says(kHead + "[server]\ncommand = [\"serve\"]\n", "the server is not told where to listen");
  says(whole + "nodes = [3]\n", "peer in [server] is missing");
  says(whole + "nodes = [3]\npeer = \"{peers}\"\n", "cannot hold {peers}");
  says(whole + "ports = [\"node\"]\n", "has the name of something else: node");
  says(whole + "[server.files]\n\"../x\" = \"\"\n", "'../x' in [server.files] is not a file name");
  says(whole + "[member]\ncommand = [\"m\"]\n", "[member] needs command and leader");
  says("name = \"x\"\nurl = \"x:\"\n[member]\ncommand = [\"m\"]\n", "[member] needs a [server]");
  says(whole + "[replica]\nfollow = [\"f\"]\n", "[replica] needs follow and promote");
  says("name = \"x\"\nurl = \"x:\"\nwall_clock = \"server\"\n", "there is no [server]");
  says("one_process = true\n" + whole, "one_process is for a store without a [server]");
  const std::string cell = "[[cell]]\nname = \"a\"\n";
  says(whole + cell + cell, "there is a [[cell]] of this name already: a");
  says(whole + cell + "[cell.store]\nkind = \"redis\"\n", "a cell is run on its own topology");
  says(whole + cell + "[[cell.nemesis]]\nkind = \"restart\"\n", "keeps what it knew");
  says(whole + cell + "[[cell.nemesis]]\nkind = \"clock-jump\"\n", "needs clock = true");
  const std::string full = cell + "[[cell.nemesis]]\nkind = \"disk-full\"\n";
  says(whole + full, "needs disk_mb in [store], or fill in [server]");
  says(whole + "fill = [\"f\"]\n", "fill and free in [server] go together");
  EXPECT_EQ(complaint_about(whole + "fill = [\"f\"]\nfree = [\"g\"]\n" + full), "it was taken");
  const std::string clock = cell + "[cell.store]\nserver_clock = true\n";
  EXPECT_EQ(complaint_about(whole + clock), "it was taken");
  says("name = \"x\"\nurl = \"x:\"\n" + clock, "server_clock in [store] needs servers");
  says("fixed_clock = \"it has none\"\n" + whole + clock, "cannot be made to jump: it has none");
  says("wall_clock = \"clients\"\n" + whole + clock + "clock = true\n", "do not go together");
}

}  // namespace
}  // namespace holdfast::lab
