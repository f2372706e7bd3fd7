#include "tests/support/zookeeper_server.h"

#include "tests/support/clock_shift.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace holdfast::support {
namespace {

constexpr char kJar[] = "/usr/share/java/zookeeper.jar";

std::string class_path() { return chosen_or("HOLDFAST_ZOOKEEPER_JAR", kJar); }

}  // namespace

std::optional<std::string> ZookeeperServer::unavailable() {
  if (!find_program("java")) return "no program 'java' (package default-jre-headless)";
  const bool chosen = class_path() != kJar;
  if (!chosen && !std::filesystem::exists(kJar)) {
    return std::string(kJar) + " is not there (package zookeeper, or HOLDFAST_ZOOKEEPER_JAR)";
  }
  return std::nullopt;
}

ZookeeperServer::ZookeeperServer(ZookeeperOptions options) : options_(std::move(options)) {
  if (const auto why = unavailable()) throw std::runtime_error(*why);
  if (options_.network) network_.emplace(options_.members);
  for (std::size_t i = 0; i < options_.members; ++i) {
    members_.push_back(std::make_unique<Member>());
  }
  for (std::size_t i = 0; i < options_.members; ++i) {
    std::filesystem::create_directories(folder(i));
    write_config(i);
    start(i);
  }
  await_serving();
}

ZookeeperServer::~ZookeeperServer() = default;

std::string ZookeeperServer::host(std::size_t member) const {
  return network_ ? network_->address(member) : "127.0.0.1";
}

std::string ZookeeperServer::folder(std::size_t member) const {
  return (options_.data.empty() ? folder_.path() : options_.data) + "/" + std::to_string(member);
}

// Not beside the data, whose disk may be full.
std::string ZookeeperServer::log_file(std::size_t member) const {
  return folder_.file("log-" + std::to_string(member));
}

std::string ZookeeperServer::log(std::size_t member) const { return tail_of(log_file(member)); }

void ZookeeperServer::write_config(std::size_t member) const {
  std::ofstream file(folder(member) + "/zoo.cfg");
  file << "tickTime=" << options_.tick.count() << "\ndataDir=" << folder(member)
       << "\nclientPort=" << port(member) << "\nclientPortAddress=" << host(member)
       << "\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
          "maxClientCnxns=0\nmaxSessionTimeout=600000\nforceSync=no\npreAllocSize=64\n";
  if (members_.size() > 1) {
    // In ticks: time enough for a machine that is busy.
    file << "initLimit=200\nsyncLimit=20\n";
    for (std::size_t i = 0; i < members_.size(); ++i) {
      file << "server." << i + 1 << "=" << host(i) << ":" << members_[i]->peer.number() << ":"
           << members_[i]->election.number() << "\n";
    }
    std::ofstream(folder(member) + "/myid") << member + 1 << "\n";
  }
  for (const std::string& line : options_.config) file << line << "\n";
}

void ZookeeperServer::start(std::size_t member) {
  std::vector<std::string> environment;
  if (!options_.clock_shift_file.empty()) {
    environment = {"LD_PRELOAD=" + clock_shim_library(),
                   clock_shim_variable(options_.clock_shift_file)};
  }
  members_[member]->process = std::make_unique<ChildProcess>(Command{
      .arguments = {"java", "-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                    "-Dzookeeper.log.dir=" + folder_.path(), "-cp", class_path(),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    folder(member) + "/zoo.cfg"},
      .environment = environment,
      .output = log_file(member),
      .network = network_ ? network_->handle(member) : -1});
}

void ZookeeperServer::kill9(std::size_t member) { members_[member]->process->kill9(); }

void ZookeeperServer::await_serving() {
  const auto until = std::chrono::steady_clock::now() + kStart;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    while (ask("srvr", i).find("Mode: ") == std::string::npos) {
      if (!members_[i]->process->running() || std::chrono::steady_clock::now() >= until) {
        throw std::runtime_error("zookeeper does not serve: " + log(i));
      }
      std::this_thread::sleep_for(20ms);
    }
  }
}

std::optional<std::size_t> ZookeeperServer::leader() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::string answer = ask("srvr", i);
    if (answer.find("Mode: leader") != std::string::npos) return i;
    if (answer.find("Mode: standalone") != std::string::npos) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> ZookeeperServer::follower() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (ask("srvr", i).find("Mode: follower") != std::string::npos) return i;
  }
  return std::nullopt;
}

std::string ZookeeperServer::ask(const std::string& word, std::size_t member) const {
  return exchange_with(host(member), port(member), word, 2s);
}

std::int64_t ZookeeperServer::figure(const std::string& name, std::size_t member) const {
  std::istringstream lines(ask("mntr", member));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name + "\t", 0) == 0) return std::atoll(line.c_str() + name.size() + 1);
  }
  throw std::runtime_error("mntr has no " + name);
}

std::string ZookeeperServer::servers(const std::vector<std::size_t>& members) const {
  std::string all;
  for (const std::size_t each : members) {
    all += (all.empty() ? "" : ",") + (host(each) + ":" + std::to_string(port(each)));
  }
  return all;
}

std::string ZookeeperServer::servers() const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < members_.size(); ++i) all.push_back(i);
  return servers(all);
}

std::string ZookeeperServer::url(const std::string& rest, const std::string& login) const {
  return "zookeeper://" + login + servers() + rest;
}

}  // namespace holdfast::support
