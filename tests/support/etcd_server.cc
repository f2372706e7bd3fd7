#include "tests/support/etcd_server.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace holdfast::support {
namespace {

constexpr milliseconds kStart = 60s;
constexpr milliseconds kAnswer = 3s;

// The body of a GET; empty: there was none in time.
std::string http_get(const std::string& host, std::uint16_t port, const std::string& path) {
  const std::string request = "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n";
  const std::string answer = exchange_with(host, port, request, kAnswer);
  const auto body = answer.find("\r\n\r\n");
  return body == std::string::npos ? std::string() : answer.substr(body + 4);
}

}  // namespace

std::optional<std::string> EtcdCluster::unavailable() {
  if (!find_program(chosen_or("HOLDFAST_ETCD_SERVER", "etcd"))) {
    return "no program 'etcd' (package etcd-server, or HOLDFAST_ETCD_SERVER)";
  }
  if (!find_program(chosen_or("HOLDFAST_ETCDCTL", "etcdctl"))) {
    return "no program 'etcdctl' (package etcd-client, or HOLDFAST_ETCDCTL)";
  }
  return std::nullopt;
}

EtcdCluster::EtcdCluster(EtcdOptions options) : options_(std::move(options)) {
  if (const auto why = unavailable()) throw std::runtime_error(*why);
  if (options_.election == 0ms) options_.election = options_.members == 1 ? 200ms : 1000ms;
  if (options_.network) network_.emplace(options_.members);
  for (std::size_t i = 0; i < options_.members; ++i) members_.push_back(std::make_unique<Member>());
  for (std::size_t i = 0; i < size(); ++i) launch(i);
  await_health();
  if (options_.auth) enable_auth();
}

void EtcdCluster::restore(const std::string& snapshot) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    std::filesystem::remove_all(data(i));
    etcdctl({"snapshot", "restore", snapshot, "--name", name(i), "--data-dir", data(i),
             "--initial-cluster", peers(), "--initial-cluster-token", folder_.path(),
             "--initial-advertise-peer-urls",
             "http://" + host(i) + ":" + std::to_string(members_[i]->peer.number())});
  }
}

EtcdCluster::~EtcdCluster() {
  for (const auto& member : members_) {
    if (member->process && member->process->running()) member->process->kill9();
  }
}

std::string EtcdCluster::data(std::size_t member) const {
  return (options_.data.empty() ? folder_.path() : options_.data) + "/" + name(member);
}

std::string EtcdCluster::host(std::size_t member) const {
  return network_ ? network_->address(member) : "127.0.0.1";
}

std::string EtcdCluster::address(std::size_t member) const {
  return host(member) + ":" + std::to_string(port(member));
}

std::string EtcdCluster::peers() const {
  std::string list;
  for (std::size_t i = 0; i < size(); ++i) {
    list += (i == 0 ? "" : ",") + name(i) + "=http://" + host(i) + ":" +
            std::to_string(members_[i]->peer.number());
  }
  return list;
}

void EtcdCluster::launch(std::size_t i) {
  Member& member = *members_[i];
  const std::string scheme = options_.tls ? "https" : "http";
  const std::string client = scheme + "://" + address(i);
  const std::string peer = "http://" + host(i) + ":" + std::to_string(member.peer.number());
  std::vector<std::string> command = {
      chosen_or("HOLDFAST_ETCD_SERVER", "etcd"),
      "--name",
      name(i),
      "--data-dir",
      data(i),
      "--listen-client-urls",
      client,
      "--advertise-client-urls",
      client,
      "--listen-peer-urls",
      peer,
      "--initial-advertise-peer-urls",
      peer,
      "--initial-cluster",
      peers(),
      "--initial-cluster-state",
      "new",
      "--initial-cluster-token",
      folder_.path(),
      "--listen-metrics-urls",
      "http://" + host(i) + ":" + std::to_string(member.metrics.number()),
      "--logger",
      "zap",
      "--log-level",
      "warn",
      "--heartbeat-interval",
      std::to_string(options_.election.count() / 10),
      "--election-timeout",
      std::to_string(options_.election.count()),
      "--bcrypt-cost",
      "4"};
  if (options_.tls) {
    const TlsFiles& files = tls_files();
    command.insert(command.end(), {"--cert-file", files.server.certificate, "--key-file",
                                   files.server.key, "--trusted-ca-file", files.ca});
    if (options_.tls_clients) command.push_back("--client-cert-auth");
  }
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  member.process = std::make_unique<ChildProcess>(
      Command{.arguments = command,
              .environment = {"ETCD_UNSUPPORTED_ARCH=arm64", "GOMAXPROCS=2"},
              .output = folder_.file(name(i) + ".log"),
              .network = network_ ? network_->handle(i) : -1});
}

bool EtcdCluster::healthy(std::size_t i) const {
  return http_get(host(i), members_[i]->metrics.number(), "/health").find("\"true\"") !=
         std::string::npos;
}

void EtcdCluster::await_health() {
  const auto until = std::chrono::steady_clock::now() + kStart;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!members_[i]->process->running() && members_[i]->process->pid() < 0) continue;
    while (!healthy(i)) {
      if (!members_[i]->process->running()) fail("etcd ended");
      if (std::chrono::steady_clock::now() > until) fail("etcd does not get healthy");
      std::this_thread::sleep_for(5ms);
    }
  }
}

void EtcdCluster::enable_auth() {
  etcdctl({"user", "add", "root:root-secret"});
  etcdctl({"role", "add", "root"});
  etcdctl({"user", "grant-role", "root", "root"});
  etcdctl({"auth", "enable"});
  has_auth_ = true;
}

std::string EtcdCluster::url(const std::string& query, const std::string& login) const {
  std::string text = (options_.tls ? "etcds://" : "etcd://") + login;
  for (std::size_t i = 0; i < size(); ++i) {
    text += (i == 0 ? "" : ",") + address(i);
  }
  return text + query;
}

std::string EtcdCluster::url_of(const std::vector<std::size_t>& members,
                                const std::string& query) const {
  std::string text = options_.tls ? "etcds://" : "etcd://";
  for (std::size_t i = 0; i < members.size(); ++i) {
    text += (i == 0 ? "" : ",") + address(members[i]);
  }
  return text + query;
}

std::size_t EtcdCluster::leader() {
  const auto until = std::chrono::steady_clock::now() + kStart;
  while (std::chrono::steady_clock::now() < until) {
    for (std::size_t i = 0; i < size(); ++i) {
      if (members_[i]->process->running() && metric("etcd_server_is_leader", {}, i) == 1) return i;
    }
    std::this_thread::sleep_for(10ms);
  }
  fail("no leader");
}

void EtcdCluster::kill9(std::size_t i) { members_[i]->process->kill9(); }
void EtcdCluster::terminate(std::size_t i) { members_[i]->process->terminate(); }

void EtcdCluster::start(std::size_t i) {
  launch(i);
  const auto until = std::chrono::steady_clock::now() + kStart;
  while (!healthy(i)) {
    if (!members_[i]->process->running() || std::chrono::steady_clock::now() > until) {
      fail("etcd does not come back");
    }
    std::this_thread::sleep_for(5ms);
  }
}

std::vector<std::string> EtcdCluster::etcdctl_command(
    const std::vector<std::string>& arguments) const {
  std::string endpoints;
  for (std::size_t i = 0; i < size(); ++i) {
    endpoints +=
        (i == 0 ? "" : ",") + std::string(options_.tls ? "https" : "http") + "://" + address(i);
  }
  std::vector<std::string> command = {
      "env", "ETCDCTL_API=3", chosen_or("HOLDFAST_ETCDCTL", "etcdctl"), "--endpoints", endpoints};
  if (options_.tls) {
    const TlsFiles& files = tls_files();
    command.insert(command.end(), {"--cacert", files.ca, "--cert", files.client.certificate,
                                   "--key", files.client.key});
  }
  if (has_auth_) command.insert(command.end(), {"--user", "root:root-secret"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::string EtcdCluster::etcdctl(const std::vector<std::string>& arguments) const {
  return run(etcdctl_command(arguments));
}

double EtcdCluster::metric(const std::string& name, const std::string& label,
                           std::size_t member) const {
  std::istringstream lines(http_get(host(member), members_[member]->metrics.number(), "/metrics"));
  double sum = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const char after = line.size() > name.size() ? line[name.size()] : ' ';
    if (after != ' ' && after != '{') continue;
    if (!label.empty() && line.find(label) == std::string::npos) continue;
    sum += std::strtod(line.c_str() + line.rfind(' '), nullptr);
  }
  return sum;
}

std::string EtcdCluster::log(std::size_t i) const {
  return tail_of(folder_.file(name(i) + ".log"));
}

void EtcdCluster::fail(const std::string& what) const {
  std::string text = what;
  for (std::size_t i = 0; i < size(); ++i) text += "\n" + name(i) + ": " + log(i);
  throw std::runtime_error(text);
}

}  // namespace holdfast::support
