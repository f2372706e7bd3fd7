#include "tests/support/redis_sentinels.h"

#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/support/url_text.h"

namespace holdfast::support {
namespace {

constexpr char kHarness[] = "holdfast-harness";  // At servers with users it has all permissions.

void await(const char* what, const std::function<bool()>& holds,
           const std::function<std::string()>& log = {}) {
  const auto until = std::chrono::steady_clock::now() + 2 * kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= until) {
      throw std::runtime_error(std::string("waited in vain: ") + what + (log ? "\n" + log() : ""));
    }
    std::this_thread::sleep_for(5ms);
  }
}

std::string field(const Reply& list, const std::string& name) {
  for (std::size_t i = 0; i + 1 < list.elements.size(); i += 2) {
    if (list.elements[i].text == name) return list.elements[i + 1].text;
  }
  return {};
}

}  // namespace

RedisSentinel::RedisSentinel(const std::string& monitor, const SentinelsOptions& options)
    : has_users_(!options.users.empty()) {
  std::ofstream file(folder_.file("sentinel.conf"));
  file << "port " << port() << "\nbind 127.0.0.1\nprotected-mode no\ndir " << folder_.file("")
       << '\n'
       << monitor;
  if (options.tls) {
    const TlsFiles& files = tls_files();
    file << "tls-port " << tls_port() << "\ntls-replication yes\ntls-auth-clients no\n"
         << "tls-cert-file " << files.server.certificate << "\ntls-key-file " << files.server.key
         << "\ntls-ca-cert-file " << files.ca << '\n';
  }
  for (const std::string& user : options.users) file << "user " << user << '\n';
  if (has_users_) {
    // Sentinels log in at each other, too.
    file << "user " << kHarness << " on nopass ~* &* +@all\nsentinel sentinel-user " << kHarness
         << "\nsentinel sentinel-pass any\n";
  }
  if (!file.flush()) throw std::runtime_error("cannot write sentinel.conf");
  file.close();
  start();
}

void RedisSentinel::start() {
  Command command{.arguments = redis_program(), .environment = {}, .output = folder_.file("log")};
  command.arguments.insert(command.arguments.end(),
                           {folder_.file("sentinel.conf"), "--sentinel"});
  process_ = std::make_unique<ChildProcess>(command);
  await("a Sentinel starts", [this] {
    if (!process_->running()) throw std::runtime_error("a Sentinel ended: " + log());
    try {
      return this->command({"PING"}).kind != Reply::Kind::kNil;
    } catch (const std::runtime_error&) {
      return false;
    }
  });
  // Faster than its habits; a server without this command is only slower. A Sentinel turns a server
  // that calls itself a primary back into a replica after four publish periods, so these must be
  // longer together than the second after which the leader sees the promotion.
  this->command({"SENTINEL", "DEBUG", "info-period", "200", "publish-period", "500", "ping-period",
                 "100", "ask-period", "100"});
}

Reply RedisSentinel::command(const std::vector<std::string>& words) const {
  RedisConnection connection(port());
  if (has_users_) connection.command({"AUTH", kHarness, "any"});
  return connection.command(words);
}

std::string RedisSentinel::log() const {
  std::ifstream file(folder_.file("log"));
  return {std::istreambuf_iterator<char>(file), {}};
}

RedisSentinels::RedisSentinels(const SentinelsOptions& options) : tls_(options.tls) {
  RedisOptions server = options.server;
  const bool has_users = !server.users.empty();
  if (tls_) {
    server.tls = RedisTls::kServerOnly;
    server.replicates_by_tls = true;
  }
  if (has_users) {
    server.config.push_back(std::string("masteruser ") + kHarness);
    server.config.emplace_back("masterauth any");
  }
  servers_.push_back(std::make_unique<RedisServer>(server));
  for (std::size_t i = 0; i < options.replicas; ++i) {
    RedisOptions replica = server;
    if (i < options.replica_shift_files.size()) {
      replica.clock_shift_file = options.replica_shift_files[i];
    }
    replica.replica_of = servers_.front().get();
    servers_.push_back(std::make_unique<RedisServer>(replica));
  }
  await_replicas(*servers_.front(), options.replicas);
  const std::string set = std::string("sentinel ");
  std::string monitor = set + "monitor " + kName + " 127.0.0.1 " +
                        std::to_string(port_of(*servers_.front())) + " " +
                        std::to_string(options.quorum) + "\n" + set + "down-after-milliseconds " +
                        kName + " " + std::to_string(kDownAfter.count()) + "\n" + set +
                        "failover-timeout " + kName + " 3000\n" + set + "parallel-syncs " + kName +
                        " 2\n";
  if (has_users) {
    monitor += set + "auth-user " + kName + " " + kHarness + "\n";
    monitor += set + "auth-pass " + kName + " any\n";
  }
  for (std::size_t i = 0; i < options.sentinels; ++i) {
    sentinels_.push_back(std::make_unique<RedisSentinel>(monitor, options));
  }
  for (const auto& each : sentinels_) {
    await("the Sentinels know each other", [&] {
      const Reply known = each->command({"SENTINEL", "MASTER", kName});
      return field(known, "num-other-sentinels") == std::to_string(options.sentinels - 1) &&
             field(known, "num-slaves") == std::to_string(options.replicas);
    });
  }
}

std::size_t RedisSentinels::primary_index() {
  std::string port;
  long highest = -1;
  for (const auto& each : sentinels_) {
    try {
      const Reply known = each->command({"SENTINEL", "MASTER", kName});
      const long epoch = std::stol(field(known, "config-epoch"));
      const Reply address = each->command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", kName});
      if (epoch > highest) port = address.elements.at(1).text;
      highest = std::max(highest, epoch);
    } catch (const std::exception&) {
      continue;  // That one is down.
    }
  }
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (std::to_string(port_of(*servers_[i])) == port) return i;
  }
  throw std::runtime_error("no Sentinel names one of the servers");
}

RedisServer& RedisSentinels::primary() { return *servers_.at(primary_index()); }

void RedisSentinels::await_switch(std::size_t before) {
  await("the Sentinels name another primary", [&] {
    const std::size_t now = primary_index();
    return now != before && servers_[now]->info("replication", "role") == "master";
  }, [this] { return sentinels_.front()->log(); });
}

void RedisSentinels::await_replicas(RedisServer& server, std::size_t number) {
  await("the replicas are connected", [&] {
    for (std::size_t i = 0; i < number; ++i) {
      const std::string one = server.info("replication", "slave" + std::to_string(i));
      if (one.find("state=online") == std::string::npos) return false;
    }
    // A new replica gets writes only after its first acknowledgement.
    server.must({"SET", "mark", "1"});
    const auto reached = server.must({"WAIT", std::to_string(number), "1000"}).integer;
    return reached >= static_cast<std::int64_t>(number);
  });
}

void RedisSentinels::drop_replication(RedisServer& server) {
  // The rule for local addresses comes first, unless it is moved.
  std::string rules = "ip rule del pref 0 && ip rule add pref 100 lookup local || true; ";
  std::istringstream replicas(server.must({"CLIENT", "LIST", "TYPE", "replica"}).text);
  for (std::string line; std::getline(replicas, line);) {
    const std::string mark = " addr=127.0.0.1:";
    const auto at = line.find(mark);
    if (at == std::string::npos) continue;
    const std::string port = std::to_string(std::stoi(line.substr(at + mark.size())));
    rules += "ip rule add pref 50 ipproto tcp sport " + std::to_string(server.port()) + " dport " +
             port + " blackhole; ";
  }
  run({"sh", "-ec", rules});
}

std::string RedisSentinels::hosts(bool tls) const {
  std::string all;
  for (const auto& each : sentinels_) {
    const std::uint16_t port = tls ? each->tls_port() : each->port();
    all += (all.empty() ? "" : ",") + ("127.0.0.1:" + std::to_string(port));
  }
  return all;
}

std::string RedisSentinels::url(const std::string& query) const {
  std::map<std::string, std::string> options{{"primary", kName}};
  if (tls_) options["tls_ca"] = tls_files().ca;
  return (tls_ ? "rediss+sentinel://" : "redis+sentinel://") + hosts() + query_text(options) +
         (query.empty() ? "" : "&" + query);
}

}  // namespace holdfast::support
