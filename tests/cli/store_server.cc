// A server of one of the stores for a test in another language, with log-in, for as long as its
// input is open. Prints one line of JSON: where it is, and who may use it. Each line of the input,
// "kill" or "start", is done and answered with a line: the process, 0 when there is none.
//
//   store_server zookeeper|etcd|consul|postgres|mysql|memcached|holdfast|holdfast-etcd
//
// 77: there is no such server here; the line says why.
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/consul_server.h"
#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"
#include "tests/support/holdfast_server.h"
#include "tests/support/mariadb_server.h"
#include "tests/support/memcached_server.h"
#include "tests/support/postgres_server.h"
#include "tests/support/serve_one.h"
#include "tests/support/zookeeper_server.h"

namespace {

using namespace holdfast::support;

// Plain words, none of which needs an escape.
struct Facts {
  std::string place;      // "127.0.0.1:port", and a path.
  std::string user;       // "user@" of the one that may use it; empty: the secret says it all.
  std::string secret;     // And of what:
  std::string powerless;  // "user:secret@" of one that is known and has no rights.
  std::vector<std::string> client{};  // The command for a user with all rights, which reads SQL.
};

template <typename Server>
int serve(Server& server, const Facts& facts) {
  const std::map<std::string, std::string> words = {{"place", facts.place},
                                                    {"user", facts.user},
                                                    {"secret", facts.secret},
                                                    {"powerless", facts.powerless}};
  std::cout << "{\"pid\": " << server.pid();
  for (const auto& [name, word] : words) std::cout << ", \"" << name << "\": \"" << word << '"';
  std::cout << ", \"client\": [";
  for (const std::string& word : facts.client) {
    std::cout << (&word == &facts.client.front() ? "\"" : ", \"") << word << '"';
  }
  std::cout << "]}" << std::endl;
  for (std::string word; std::getline(std::cin, word);) {
    if (word == "kill") server.kill9();
    if (word == "start") server.start();
    if constexpr (requires { server.await_serving(); }) {
      if (word == "start") server.await_serving();
    }
    std::cout << (word == "kill" ? 0 : server.pid()) << std::endl;
  }
  return 0;
}

int serve_zookeeper() {
  ZookeeperServer server;
  return serve(server, {.place = server.servers() + "/cli",
                        .user = "alice@",
                        .secret = "s3cret-Pw",
                        .powerless = "bob:other-Pw@"});
}

int serve_etcd() {
  EtcdCluster server({.auth = true});
  server.etcdctl({"role", "add", "locks"});
  server.etcdctl({"role", "grant-permission", "locks", "readwrite", "hf1/", "--prefix=true"});
  server.etcdctl({"user", "add", "alice:s3cret-Pw"});
  server.etcdctl({"user", "grant-role", "alice", "locks"});
  server.etcdctl({"user", "add", "bob:other-Pw"});
  return serve(server, {.place = "127.0.0.1:" + std::to_string(server.port()),
                        .user = "alice@",
                        .secret = "s3cret-Pw",
                        .powerless = "bob:other-Pw@"});
}

int serve_consul() {
  ConsulServer server({.acl = true});
  // As docs/stores/consul.md has it.
  const std::string locks = server.make_token(
      R"(key_prefix "holdfast/" { policy = "write" } session_prefix "" { policy = "write" } )"
      R"(agent_prefix "" { policy = "read" })");
  const std::string none = server.make_token(R"(key_prefix "other/" { policy = "write" })");
  return serve(server, {.place = "127.0.0.1:" + std::to_string(server.port()),
                        .user = "",
                        .secret = locks,
                        .powerless = none + "@"});
}

// With a password over TCP; the one without rights may connect, and no more.
int serve_postgres() {
  PostgresServer server({.tcp = true,
                         .passwords = true,
                         .settings = {"fsync=on", "full_page_writes=on", "autovacuum=on"}});
  server.sql("CREATE ROLE alice LOGIN PASSWORD 's3cret-Pw'");
  server.sql("CREATE SCHEMA holdfast AUTHORIZATION alice");
  server.sql("CREATE ROLE bob LOGIN PASSWORD 'other-Pw'");
  return serve(server, {.place = "127.0.0.1:" + std::to_string(server.port()) + "/postgres",
                        .user = "alice@",
                        .secret = "s3cret-Pw",
                        .powerless = "bob:other-Pw@",
                        .client = server.client()});
}

// With a password over TCP; the one without rights may connect, and no more.
int serve_mysql() {
  MariadbServer server(
      {.tcp = true, .users = true, .settings = {"--innodb-flush-log-at-trx-commit=1"}});
  server.sql("CREATE USER alice@'%' IDENTIFIED BY 's3cret-Pw'");
  server.sql("GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON test.* TO alice@'%'");
  server.sql("CREATE USER bob@'%' IDENTIFIED BY 'other-Pw'");
  server.sql("GRANT CREATE TEMPORARY TABLES ON test.* TO bob@'%'");
  return serve(server, {.place = "127.0.0.1:" + std::to_string(server.port()) + "/test",
                        .user = "alice@",
                        .secret = "s3cret-Pw",
                        .powerless = "bob:other-Pw@",
                        .client = server.client()});
}

// Nobody logs in.
int serve_memcached() {
  MemcachedServer server;
  return serve(server, {.place = "127.0.0.1:" + std::to_string(server.port()),
                        .user = "",
                        .secret = "",
                        .powerless = ""});
}

int serve_holdfast() {
  HoldfastServer server;
  return serve(server, {.place = "127.0.0.1:" + std::to_string(server.port()),
                        .user = "",
                        .secret = "",
                        .powerless = ""});
}

// Its journal is in an etcd of its own, which is neither killed nor started.
class ServerOnEtcd {
 public:
  pid_t pid() const { return server_.pid(); }
  std::string place() const { return "127.0.0.1:" + std::to_string(server_.port()); }
  void kill9() { server_.kill9(); }
  void start() { server_.start(); }
  // It leads again when the lease of its last life has ended.
  void await_serving() const {
    eventually([this] { return server_.leads(); });
  }

 private:
  EtcdCluster etcd_;
  HoldfastServer server_{{.journal = etcd_.url("/cli?leadership=2s")}};
};

int serve_holdfast_on_etcd() {
  ServerOnEtcd server;
  server.await_serving();
  return serve(server, {.place = server.place(), .user = "", .secret = "", .powerless = ""});
}

std::optional<std::string> no_server_on_etcd() {
  const auto why = EtcdCluster::unavailable();
  return why ? why : HoldfastServer::unavailable();
}

}  // namespace

int main(int argc, char** argv) {
  return serve_one(argc, argv,
                   {{"zookeeper", {ZookeeperServer::unavailable, serve_zookeeper}},
                    {"etcd", {EtcdCluster::unavailable, serve_etcd}},
                    {"consul", {ConsulServer::unavailable, serve_consul}},
                    {"holdfast", {HoldfastServer::unavailable, serve_holdfast}},
                    {"holdfast-etcd", {no_server_on_etcd, serve_holdfast_on_etcd}},
                    {"memcached", {MemcachedServer::unavailable, serve_memcached}},
                    {"postgres", {PostgresServer::unavailable, serve_postgres}},
                    {"mysql", {MariadbServer::unavailable, serve_mysql}}});
}
