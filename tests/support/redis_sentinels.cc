#include "tests/support/redis_sentinels.h"

#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace holdfast::support {
namespace {

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

RedisSentinel::RedisSentinel(const std::string& monitor, const std::vector<std::string>& config) {
  std::ofstream file(folder_.file("sentinel.conf"));
  file << "port " << port() << "\nbind 127.0.0.1\nprotected-mode no\ndir " << folder_.file("")
       << '\n'
       << monitor;
  for (const std::string& line : config) file << line << '\n';
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
  return connection.command(words);
}

std::string RedisSentinel::log() const {
  std::ifstream file(folder_.file("log"));
  return {std::istreambuf_iterator<char>(file), {}};
}

RedisSentinels::RedisSentinels(const SentinelsOptions& options) {
  servers_.push_back(std::make_unique<RedisServer>(options.server));
  for (std::size_t i = 0; i < options.replicas; ++i) {
    RedisOptions replica = options.server;
    replica.replica_of = servers_.front().get();
    servers_.push_back(std::make_unique<RedisServer>(replica));
  }
  await_replicas(*servers_.front(), options.replicas);
  const std::string set = std::string("sentinel ");
  std::string monitor = set + "monitor " + kName + " 127.0.0.1 " +
                        std::to_string(servers_.front()->port()) + " " +
                        std::to_string(options.quorum) + "\n" + set + "down-after-milliseconds " +
                        kName + " " + std::to_string(kDownAfter.count()) + "\n" + set +
                        "failover-timeout " + kName + " 3000\n" + set + "parallel-syncs " + kName +
                        " 2\n";
  for (const std::string& line : options.monitor) {
    const auto space = line.find(' ');
    monitor += set + line.substr(0, space) + " " + kName + line.substr(space) + "\n";
  }
  for (std::size_t i = 0; i < options.sentinels; ++i) {
    sentinels_.push_back(std::make_unique<RedisSentinel>(monitor, options.config));
  }
  for (const auto& each : sentinels_) {
    await("the Sentinels know each other", [&] {
      const Reply known = each->command({"SENTINEL", "MASTER", kName});
      return known.is_error() ||  // It asks for a password: the test has its own way to wait.
             (field(known, "num-other-sentinels") == std::to_string(options.sentinels - 1) &&
              field(known, "num-slaves") == std::to_string(options.replicas));
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
    if (std::to_string(servers_[i]->port()) == port) return i;
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

std::string RedisSentinels::hosts() const {
  std::string all;
  for (const auto& each : sentinels_) {
    all += (all.empty() ? "" : ",") + ("127.0.0.1:" + std::to_string(each->port()));
  }
  return all;
}

std::string RedisSentinels::url(const std::string& query) const {
  return "redis+sentinel://" + hosts() + "?primary=" + kName + (query.empty() ? "" : "&" + query);
}

}  // namespace holdfast::support
