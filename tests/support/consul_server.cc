#include "tests/support/consul_server.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "tests/support/tls_files.h"
#include "tests/support/url_text.h"

namespace holdfast::support {
namespace {

constexpr milliseconds kLookAgain = 10ms;

std::string unpacked_program() {
  return chosen_or("XDG_CACHE_HOME", chosen_or("HOME", "") + "/.cache") + "/holdfast/consul";
}

// The text of a JSON string field; for what the harness itself asks.
std::string field_of(const std::string& json, const std::string& name) {
  const std::string begins = "\"" + name + "\":\"";
  const auto at = json.find(begins);
  if (at == std::string::npos) return "";
  const auto from = at + begins.size();
  return json.substr(from, json.find('"', from) - from);
}

std::string escaped(const std::string& text) {
  std::string json;
  for (const char each : text) {
    if (each == '"' || each == '\\') json += '\\';
    json += each == '\n' ? ' ' : each;
  }
  return json;
}

}  // namespace

std::string ConsulServer::program() {
  return chosen_or("HOLDFAST_CONSUL", find_program("consul").value_or(unpacked_program()));
}

std::optional<std::string> ConsulServer::unavailable() {
  if (find_program(program())) return std::nullopt;
  return "no program '" + program() + "' (scripts/consul-server gets it; or HOLDFAST_CONSUL)";
}

ConsulServer::ConsulServer(ConsulOptions options) : ConsulServer(std::move(options), Part{}) {
  start();
}

ConsulServer::ConsulServer(ConsulOptions options, Part part)
    : options_(std::move(options)), part_(std::move(part)) {
  if (const auto problem = unavailable()) throw std::runtime_error(*problem);
}

ConsulServer::~ConsulServer() = default;

std::string ConsulServer::config() const {
  const std::string data =
      options_.data_folder.empty() ? folder_.file("data") : options_.data_folder;
  std::string text = options_.dev
                         ? ""
                         : "server = true\nbootstrap_expect = " + std::to_string(part_.servers) +
                               "\ndata_dir = \"" + data + "\"\n";
  text += "node_name = \"" + part_.name + "\"\nbind_addr = \"" + part_.host +
          "\"\nclient_addr = \"" + part_.host + "\"\n" +
          "disable_host_node_id = true\ndisable_update_check = true\n" +
          "leave_on_terminate = false\nskip_leave_on_interrupt = true\n" +
          "performance { raft_multiplier = 1 }\n" +
          "limits { http_max_conns_per_client = 4000 }\nsession_ttl_min = \"" +
          options_.session_ttl_min + "\"\nports { dns = -1 grpc = -1 serf_wan = -1 " +
          "http = " + std::to_string(port()) +
          " https = " + (options_.tls ? std::to_string(tls_port()) : "-1") +
          " server = " + std::to_string(raft_port()) +
          " serf_lan = " + std::to_string(gossip_.number()) + " }\n";
  for (const std::string& peer : part_.peers) text += "retry_join = [\"" + peer + "\"]\n";
  if (!part_.peers.empty()) text += "retry_interval = \"1s\"\n";
  if (options_.acl) {
    text += std::string("acl { enabled = true default_policy = \"deny\" tokens { master = \"") +
            kMasterToken + "\" agent = \"" + kMasterToken + "\" } }\n";
  }
  if (options_.tls) {
    const TlsFiles& files = tls_files();
    text += "ca_file = \"" + files.ca + "\"\ncert_file = \"" + files.server.certificate +
            "\"\nkey_file = \"" + files.server.key +
            "\"\nverify_incoming_https = " + (options_.tls_clients ? "true" : "false") + "\n";
  }
  for (const std::string& line : options_.config) text += line + "\n";
  return text;
}

void ConsulServer::launch() {
  std::ofstream file(folder_.file("consul.hcl"), std::ios::trunc);
  file << config();
  if (!file.flush()) throw std::runtime_error("cannot write consul.hcl");
  file.close();
  std::vector<std::string> arguments{program(),      "agent",
                                     "-config-file", folder_.file("consul.hcl"),
                                     "-log-level",   options_.log_level};
  if (options_.dev) arguments.emplace_back("-dev");
  process_ =
      std::make_unique<ChildProcess>(Command{.arguments = std::move(arguments),
                                             .environment = {"GOMAXPROCS=2", "CONSUL_HTTP_TOKEN="},
                                             .output = folder_.file("log"),
                                             .network = part_.network});
}

void ConsulServer::start() {
  if (process_ != nullptr && process_->running()) throw std::runtime_error("it runs already");
  launch();
  await_ready();
}

void ConsulServer::await_ready() {
  const auto until = std::chrono::steady_clock::now() + kStart;
  while (!is_ready()) {
    if (const auto status = process_->wait(kLookAgain)) {
      throw std::runtime_error("consul ended with " + std::to_string(*status) +
                               " instead of starting: " + tail_of(folder_.file("log")));
    }
    if (std::chrono::steady_clock::now() >= until) {
      throw std::runtime_error("consul does not get ready: " + tail_of(folder_.file("log")));
    }
  }
}

bool ConsulServer::is_ready() const {
  try {
    return ask("PUT", "/v1/kv/harness-ready", "x").body.find("true") != std::string::npos;
  } catch (const std::runtime_error&) {
    return false;
  }
}

ConsulAnswer ConsulServer::ask(const std::string& method, const std::string& target,
                               const std::string& body, const std::string& token) const {
  const std::string shown = token.empty() && options_.acl ? kMasterToken : token;
  const std::string request = method + " " + target + " HTTP/1.0\r\nHost: localhost\r\n" +
                              (shown.empty() ? "" : "X-Consul-Token: " + shown + "\r\n") +
                              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  const std::string answer = exchange_with(part_.host, port(), request, kPatience);
  const auto head = answer.find("\r\n\r\n");
  if (head == std::string::npos || answer.size() < 12) {
    throw std::runtime_error("consul does not answer: " + tail_of(folder_.file("log")));
  }
  return {std::atoi(answer.c_str() + answer.find(' ') + 1), answer.substr(head + 4)};
}

std::string ConsulServer::leader() const {
  try {
    const std::string body = ask("GET", "/v1/status/leader").body;
    const auto from = body.find('"') + 1;
    return body.substr(from, body.find('"', from) - from);
  } catch (const std::runtime_error&) {
    return "";
  }
}

std::string ConsulServer::raft_address() const {
  return part_.host + ":" + std::to_string(raft_port());
}

std::string ConsulServer::gossip_address() const {
  return part_.host + ":" + std::to_string(gossip_.number());
}

std::string ConsulServer::make_token(const std::string& rules) const {
  static int number = 0;
  const std::string name = "policy-" + std::to_string(++number);
  const auto policy = ask("PUT", "/v1/acl/policy",
                          R"({"Name":")" + name + R"(","Rules":")" + escaped(rules) + "\"}");
  const auto token = ask("PUT", "/v1/acl/token", R"({"Policies":[{"Name":")" + name + R"("}]})");
  std::string secret = field_of(token.body, "SecretID");
  if (policy.status != 200 || secret.empty()) {
    throw std::runtime_error("no token: " + policy.body + token.body);
  }
  return secret;
}

std::string ConsulServer::url(const std::map<std::string, std::string>& query,
                              std::uint16_t through) const {
  return "consul://127.0.0.1:" + std::to_string(through != 0 ? through : port()) +
         query_text(query);
}

std::string ConsulServer::tls_url(std::map<std::string, std::string> query) const {
  query.emplace("tls_ca", tls_files().ca);
  return "consuls://127.0.0.1:" + std::to_string(tls_port()) + query_text(query);
}

std::string ConsulServer::log() const {
  std::ifstream file(folder_.file("log"));
  return {std::istreambuf_iterator<char>(file), {}};
}

ConsulCluster::ConsulCluster(const ConsulOptions& options) {
  constexpr std::size_t kServers = 3;
  if (options.network) network_.emplace(kServers);
  for (std::size_t i = 0; i < kServers; ++i) {
    ConsulServer::Part part{.servers = kServers, .name = "server-" + std::to_string(i + 1)};
    if (network_) part.host = network_->address(i);
    if (network_) part.network = network_->handle(i);
    servers_.push_back(std::unique_ptr<ConsulServer>(new ConsulServer(options, std::move(part))));
  }
  for (const auto& server : servers_) {
    for (const auto& peer : servers_) {
      server->part_.peers.push_back(peer->gossip_address());
    }
  }
  for (const auto& server : servers_) server->launch();
  for (const auto& server : servers_) server->await_ready();
}

std::size_t ConsulCluster::leader(milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (true) {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (!servers_[i]->running()) continue;
      const ConsulServer& server = *servers_[i];
      if (server.leader() == server.raft_address() && server.is_ready()) return i;
    }
    if (std::chrono::steady_clock::now() >= until) throw std::runtime_error("no leader in time");
    std::this_thread::sleep_for(kLookAgain);
  }
}

std::string ConsulCluster::url(const std::map<std::string, std::string>& query,
                               const std::vector<std::size_t>& order) const {
  std::string hosts;
  for (const std::size_t i : order) {
    hosts += (hosts.empty() ? "" : ",") + servers_[i]->address();
  }
  return "consul://" + hosts + query_text(query);
}

}  // namespace holdfast::support
