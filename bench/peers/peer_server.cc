// One server for `make bench-peers`, without log-in, for as long as its input is open. Prints one
// line: HOST:PORT and the process.
//
//   peer_server redis|zookeeper|etcd|consul
//
// 77: there is no such server here; the line says why.
#include <iostream>
#include <limits>
#include <string>

#include "tests/support/consul_server.h"
#include "tests/support/etcd_server.h"
#include "tests/support/redis_server.h"
#include "tests/support/serve_one.h"
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

}  // namespace

int main(int argc, char** argv) {
  return serve_one(argc, argv,
                   {{"redis", {RedisServer::unavailable, serve_at_port<RedisServer>}},
                    {"zookeeper", {ZookeeperServer::unavailable, serve_zookeeper}},
                    {"etcd", {EtcdCluster::unavailable, serve_at_port<EtcdCluster>}},
                    {"consul", {ConsulServer::unavailable, serve_at_port<ConsulServer>}}});
}
