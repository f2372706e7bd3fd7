// One server for `make bench-peers`, without log-in, for as long as its input is open. Prints one
// line: HOST:PORT and the process.
//
//   peer_server redis|zookeeper|etcd|consul
//
// 77: there is no such server here; the line says why.
#include <cstdio>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "tests/support/consul_server.h"
#include "tests/support/etcd_server.h"
#include "tests/support/redis_server.h"
#include "tests/support/zookeeper_server.h"

namespace {

using namespace holdfast::support;

int serve(const std::string& place, long pid) {
  std::cout << place << ' ' << pid << std::endl;
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  return 0;
}

template <typename Server>
int serve_at_port() {
  Server server;
  return serve("127.0.0.1:" + std::to_string(server.port()), server.pid());
}

int serve_zookeeper() {
  ZookeeperServer server;
  return serve(server.servers(), server.pid());
}

struct Kind {
  std::function<std::optional<std::string>()> unavailable;
  std::function<int()> serve;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::map<std::string, Kind> kinds = {
      {"redis", {RedisServer::unavailable, serve_at_port<RedisServer>}},
      {"zookeeper", {ZookeeperServer::unavailable, serve_zookeeper}},
      {"etcd", {EtcdCluster::unavailable, serve_at_port<EtcdCluster>}},
      {"consul", {ConsulServer::unavailable, serve_at_port<ConsulServer>}}};
  const auto kind = kinds.find(argc == 2 ? argv[1] : "");
  if (kind == kinds.end()) {
    std::fputs("usage: peer_server redis|zookeeper|etcd|consul\n", stderr);
    return 2;
  }
  if (const auto why = kind->second.unavailable()) {
    std::cout << *why << std::endl;
    constexpr int kSkipped = 77;
    return kSkipped;
  }
  return kind->second.serve();
} catch (const std::exception& error) {
  std::fprintf(stderr, "peer_server: %s\n", error.what());
  return 1;
}
