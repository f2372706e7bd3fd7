// A rig whose servers have a host each.
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

#include "lab/rig/rig.h"
#include "lab/scenario/topology_files.h"

namespace holdfast::lab {
namespace {

[[maybe_unused]] const bool kNetwork = support::keep_network_private();

// No server at all: it tells what it was told, and stays.
constexpr char kTeller[] =
    "name = \"teller\"\nurl = \"x://{hosts}\"\n[server]\n"
    "command = [\"sh\", \"-c\", \"echo {host}:{port} {peers} $(ip -4 -o address show eth0) "
    ">{folder}/told; exec sleep 1000\"]\n"
    "ready = [\"test\", \"-s\", \"{folder}/told\"]\nnodes = [3]\npeer = \"{host}\"\n";

TEST(RigNetworkTest, EveryNodeHasAHostAndIsToldOfTheOthers) {
  HOLDFAST_NEEDS_SERVER_NETWORK();
  const support::TempFolder folder("rig");
  auto topology = read_topology(kTeller, "t.toml");
  ASSERT_TRUE(topology) << topology.error().message();
  Scenario scenario;
  scenario.topology = *topology;
  scenario.store.network = true;
  Rig rig(scenario, folder.path());
  std::string all;
  std::string peers;
  std::set<std::string> hosts;
  for (const int node : {1, 2, 3}) {
    std::ifstream file(folder.path() + "/store/node-" + std::to_string(node) + "/told");
    const std::vector<std::string> told{std::istream_iterator<std::string>(file), {}};
    ASSERT_GE(told.size(), 6U);
    const std::string host = told[0].substr(0, told[0].find(':'));
    EXPECT_TRUE(hosts.insert(host).second) << host << " is two nodes'";
    EXPECT_EQ(told[5], host + "/30") << "it runs there";
    all += (all.empty() ? "" : ",") + told[0];
    peers += (peers.empty() ? "" : ",") + host;
    EXPECT_TRUE(told[1].starts_with(peers)) << told[1];
  }
  EXPECT_EQ(rig.urls(1).at(0), "x://" + all);
  rig.cut_off(2);
  rig.rejoin(2);
  EXPECT_EQ(rig.network_of_client(1), -1) << "its proxies are in the lab's network";
}

// Each program listens, and says again and again whom it reaches: members and nodes in their order.
constexpr char kWithMembers[] = R"toml(
name = "members"
url = "x://{hosts}"
[server]
command = ["python3", "{folder}/peer", "{host}", "{port}", "{folder}/ways", "{members},{peers}"]
ready = ["test", "-s", "{folder}/ways"]
nodes = [3]
peer = "{host}:{port}"
[server.files]
"peer" = '''
import os, socket, socketserver, sys, threading
host, port, file, others = sys.argv[1:]
server = socketserver.TCPServer((host, int(port)), socketserver.BaseRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
while True:
    ways = ""
    for other in others.split(","):
        try:
            socket.create_connection(other.split(":"), 0.3).close()
            ways += "1"
        except OSError:
            ways += "0"
    with open(file + ".new", "w") as out:
        out.write(ways)
    os.rename(file + ".new", file)
'''
[member]
command = [
  "sh", "-c",
  """
until test -e {folder}/../node-{node}/peer; do sleep 0.01; done
exec python3 {folder}/../node-{node}/peer {host} {port} {folder}/ways {peers}
""",
]
ready = ["test", "-s", "{folder}/ways"]
peer = "{host}:{port}"
leader = ["true"]
)toml";

TEST(RigNetworkTest, AMemberIsCutOffAloneOrWithItsNode) {
  HOLDFAST_NEEDS_SERVER_NETWORK();
  if (!support::find_program("python3")) GTEST_SKIP() << "SKIPPED: no program 'python3'";
  const support::TempFolder folder("rig");
  auto topology = read_topology(kWithMembers, "t.toml");
  ASSERT_TRUE(topology) << topology.error().message();
  Scenario scenario;
  scenario.topology = *topology;
  scenario.store.network = true;
  Rig rig(scenario, folder.path());
  const auto reaches = [&](const std::string& who, const std::string& whom) {
    std::string ways;
    for (int looks = 0; looks < 2000 && ways != whom; ++looks) {
      std::ifstream file(folder.path() + "/store/" + who + "/ways");
      ways.assign(std::istreambuf_iterator<char>(file), {});
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(ways, whom) << who;
  };
  rig.cut_off_member(2);
  reaches("node-1", "101111");
  reaches("node-2", "101111");
  reaches("member-2", "010");
  rig.rejoin_member(2);
  rig.cut_member_from_servers(2);
  reaches("node-2", "101111");
  reaches("member-2", "111");
  rig.rejoin_member_to_servers(2);
  rig.cut_off(2);
  reaches("node-2", "010010");
  reaches("member-2", "010");
  reaches("node-3", "101101");
  rig.rejoin(2);
  rig.cut_off_from_next(3);
  reaches("node-3", "011011");
  reaches("member-1", "110");
  reaches("node-2", "111111");
  rig.rejoin_next(3);
  for (const std::string number : {"1", "2", "3"}) {
    reaches("node-" + number, "111111");
    reaches("member-" + number, "111");
  }
}

// Servers that clients reach without proxies.
constexpr char kDirect[] =
    "name = \"direct\"\nurl = \"x://{hosts}\"\ndirect = true\n[server]\n"
    "command = [\"python3\", \"-m\", \"http.server\", \"{port}\", \"--bind\", \"{host}\"]\n"
    "nodes = [2]\npeer = \"{host}:{port}\"\n";

TEST(RigNetworkTest, AClientIsCutOffFromOneNode) {
  HOLDFAST_NEEDS_SERVER_NETWORK();
  if (!support::find_program("python3")) GTEST_SKIP() << "SKIPPED: no program 'python3'";
  const support::TempFolder folder("rig");
  auto topology = read_topology(kDirect, "t.toml");
  ASSERT_TRUE(topology) << topology.error().message();
  Scenario scenario;
  scenario.topology = *topology;
  scenario.store.network = true;
  scenario.clients.processes = 2;
  Rig rig(scenario, folder.path());
  const std::string url = rig.urls(1).at(0);  // x://first,second
  const std::size_t comma = url.find(',');
  const std::vector<std::string> nodes = {url.substr(4, comma - 4), url.substr(comma + 1)};
  const auto reaches = [&](std::uint32_t client, std::uint32_t node) {
    const std::string& address = nodes.at(node - 1);
    const std::size_t colon = address.find(':');
    support::ChildProcess child(
        {.arguments = {"python3", "-c",
                       "import socket, sys; "
                       "socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)",
                       address.substr(0, colon), address.substr(colon + 1)},
         .network = rig.network_of_client(client)});
    return child.wait() == 0;
  };
  rig.cut_client(1, 2);
  EXPECT_FALSE(reaches(1, 2));
  EXPECT_TRUE(reaches(1, 1));
  EXPECT_TRUE(reaches(2, 2));
  rig.heal_client(1, 2);
  EXPECT_TRUE(reaches(1, 2));
}

}  // namespace
}  // namespace holdfast::lab
