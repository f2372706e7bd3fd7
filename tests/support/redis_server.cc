#include "tests/support/redis_server.h"

#include <poll.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "tests/support/clock_shift.h"
#include "tests/support/url_text.h"

namespace holdfast::support {

std::vector<std::string> redis_program() {
  const char* chosen = std::getenv("HOLDFAST_REDIS_SERVER");
  if (chosen == nullptr || *chosen == '\0') return {"redis-server"};
  if (find_program(chosen)) return {chosen};
  std::istringstream words(chosen);
  return {std::istream_iterator<std::string>(words), {}};
}

namespace {

constexpr char kAdmin[] = "holdfast-harness";
constexpr milliseconds kBetweenQuestions = 2ms;
constexpr std::size_t kLogInFailure = 4000;

struct Version {
  std::string problem;
  std::vector<int> numbers;
};

// "Redis server v=7.0.15 sha=..."; "Valkey server v=8.1.1 sha=...".
Version ask_version() {
  std::vector<std::string> words = redis_program();
  std::string line = words.empty() ? "" : words[0];
  if (words.empty() || !find_program(line)) {
    return {"no program '" + line + "' (package redis-server, or HOLDFAST_REDIS_SERVER)", {}};
  }
  words.push_back("--version");
  try {
    line = run(words);
  } catch (const std::exception& error) {
    return {error.what(), {}};
  }
  const auto at = line.find(" v=");
  if (at == std::string::npos) return {"it says no version: " + line, {}};
  Version version;
  std::istringstream numbers(line.substr(at + 3));
  for (int number = 0; numbers >> number; numbers.ignore(1)) {
    version.numbers.push_back(number);
    if (numbers.peek() != '.') break;
  }
  return version;
}

const Version& cached_version() {
  static const Version version = ask_version();
  return version;
}

std::string lower(std::string text) {
  for (char& each : text) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return text;
}

std::string environment_list(const std::vector<std::string>& items) {
  std::string list;
  for (const std::string& item : items) list += (list.empty() ? "" : ":") + item;
  return list;
}

void add_tls_lines(const RedisOptions& options, std::uint16_t port,
                   std::vector<std::string>& lines) {
  const TlsFiles& files = tls_files();
  const KeyPair& own = options.certificate.key.empty() ? files.server : options.certificate;
  const char* clients = options.tls == RedisTls::kServerOnly              ? "no"
                        : options.tls == RedisTls::kClientMayAuthenticate ? "optional"
                                                                          : "yes";
  lines.push_back("tls-port " + std::to_string(port));
  lines.push_back("tls-cert-file " + own.certificate);
  lines.push_back("tls-key-file " + own.key);
  lines.push_back("tls-ca-cert-file " + files.ca);
  lines.push_back(std::string("tls-auth-clients ") + clients);
  if (options.replicates_by_tls) lines.push_back("tls-replication yes");
}

}  // namespace

std::optional<std::string> RedisServer::unavailable() {
  const std::string& problem = cached_version().problem;
  return problem.empty() ? std::nullopt : std::optional(problem);
}

const std::vector<int>& RedisServer::version() const { return cached_version().numbers; }

RedisServer::RedisServer(RedisOptions options) : options_(std::move(options)) {
  if (const auto problem = unavailable()) throw std::runtime_error(*problem);
  std::filesystem::create_directory(data_folder());
  start();
}

RedisServer::~RedisServer() = default;

std::vector<std::string> RedisServer::config_lines() const {
  std::vector<std::string> lines = {
      "bind 127.0.0.1",
      "port " + std::to_string(port()),
      "unixsocket " + socket_path(),
      "dir " + data_folder(),
      "daemonize no",
      "save " + (options_.save.empty() ? "\"\"" : options_.save),
      std::string("appendonly ") + (options_.appendonly ? "yes" : "no"),
      "appendfsync " + options_.appendfsync,
      "repl-diskless-sync-delay 0",
  };
  if (cached_version().numbers.at(0) >= 7) lines.push_back("enable-debug-command yes");
  if (!options_.maxmemory.empty()) lines.push_back("maxmemory " + options_.maxmemory);
  if (!options_.maxmemory_policy.empty()) {
    lines.push_back("maxmemory-policy " + options_.maxmemory_policy);
  }
  if (!options_.requirepass.empty()) lines.push_back("requirepass " + options_.requirepass);
  for (const std::string& user : options_.users) lines.push_back("user " + user);
  if (has_admin()) lines.push_back(std::string("user ") + kAdmin + " on nopass ~* &* +@all");
  if (options_.tls != RedisTls::kOff) add_tls_lines(options_, tls_port(), lines);
  if (options_.replica_of != nullptr) {
    const RedisServer& primary = *options_.replica_of;
    lines.push_back("replicaof 127.0.0.1 " + std::to_string(options_.replicates_by_tls
                                                                ? primary.tls_port()
                                                                : primary.port()));
    const std::string& password = options_.replica_of->options().requirepass;
    if (!password.empty()) lines.push_back("masterauth " + password);
  }
  lines.insert(lines.end(), options_.config.begin(), options_.config.end());
  return lines;
}

void RedisServer::write_config() const {
  std::ofstream file(folder_.file("redis.conf"), std::ios::trunc);
  for (const std::string& line : config_lines()) file << line << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write redis.conf");
}

void RedisServer::launch() {
  write_config();
  Command command{.arguments = redis_program(), .environment = {}, .output = folder_.file("log")};
  command.arguments.push_back(folder_.file("redis.conf"));
  std::vector<std::string> preload = options_.preload;
  if (!options_.clock_shift_file.empty()) {
    preload.push_back(clock_shim_library());
    command.environment.push_back(clock_shim_variable(options_.clock_shift_file));
  }
  if (!preload.empty()) command.environment.push_back("LD_PRELOAD=" + environment_list(preload));
  process_ = std::make_unique<ChildProcess>(command);
}

void RedisServer::start() {
  if (process_ != nullptr && process_->running()) throw std::runtime_error("it runs already");
  admin_.reset();
  // A dead server's: whoever asks while the new one starts must not be told the old one's story.
  std::filesystem::remove(socket_path());
  launch();
  await_ready();
}

void RedisServer::await_ready() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!is_ready()) {
    // Waits for its death, and for a moment.
    if (const auto status = process_->wait(kBetweenQuestions)) {
      fail("ended with " + std::to_string(*status) + " instead of starting");
    }
    if (std::chrono::steady_clock::now() >= until) fail("does not get ready");
  }
  if (info("server", "process_id") != std::to_string(pid())) fail("is not who answers");
}

bool RedisServer::is_ready() {
  if (!std::filesystem::exists(socket_path())) return false;
  try {
    // LOADING is an answer, too.
    return command({"PING"}).text == "PONG";
  } catch (const std::runtime_error&) {
    return false;
  }
}

void RedisServer::fail(const std::string& what) const {
  std::string said = log();
  if (said.size() > kLogInFailure) said.erase(0, said.size() - kLogInFailure);
  throw std::runtime_error("redis-server " + what + "; its log:\n" + said);
}

std::string RedisServer::log() const {
  std::ifstream file(folder_.file("log"));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string RedisServer::url(const UrlOptions& options) const {
  const bool anonymous = options.user.empty() && options.password.empty();
  const std::string& password = anonymous ? options_.requirepass : options.password;
  std::string text = options.unix_socket ? "redis+unix://" : options.tls ? "rediss://" : "redis://";
  if (!options.user.empty() || !password.empty()) {
    text += percent_encoded(options.user) + ":" + percent_encoded(password) + "@";
  }
  if (options.unix_socket) {
    text += socket_path();
  } else {
    const std::uint16_t own = options.tls ? tls_port() : port();
    text += options.host + ":" + std::to_string(options.port == 0 ? own : options.port);
  }
  std::map<std::string, std::string> query = options.query;
  if (options.tls) query.try_emplace("tls_ca", tls_files().ca);
  if (!options.certificate.key.empty()) {
    query.try_emplace("tls_cert", options.certificate.certificate);
    query.try_emplace("tls_key", options.certificate.key);
  }
  return text + query_text(query);
}

void RedisServer::kill9() {
  admin_.reset();
  process_->kill9();
}

void RedisServer::terminate() {
  admin_.reset();
  process_->terminate();
}

void RedisServer::restart(Memory memory) {
  if (memory == Memory::kLost) {
    kill9();
    std::filesystem::remove_all(data_folder());
    std::filesystem::create_directory(data_folder());
  } else if (process_->running()) {
    // The append-only file is on the disk already, and would win over a snapshot.
    if (!options_.appendonly) must({"SAVE"});
    terminate();
  }
  start();
}

Reply RedisServer::command(const std::vector<std::string>& words) {
  for (bool reused = admin_ != nullptr;; reused = false) {
    if (admin_ == nullptr) {
      admin_ = std::make_unique<RedisConnection>(socket_path());
      if (has_admin()) admin_->command({"AUTH", kAdmin, "harness"});
    }
    try {
      return admin_->command(words);
    } catch (const std::runtime_error& error) {
      admin_.reset();
      // Only a connection that was dead before is worth a second attempt.
      const std::string what = error.what();
      const bool was_closed =
          what.find("closed") != what.npos || what.find("reset") != what.npos;
      if (!reused || !was_closed) throw;
    }
  }
}

Reply RedisServer::must(const std::vector<std::string>& words) {
  Reply reply = command(words);
  if (reply.is_error()) throw std::runtime_error(words.at(0) + ": " + reply.text);
  return reply;
}

std::int64_t RedisServer::client_kill(const std::string& type) {
  return must({"CLIENT", "KILL", "TYPE", type, "SKIPME", "yes"}).integer;
}

void RedisServer::config_set(const std::string& name, const std::string& value) {
  must({"CONFIG", "SET", name, value});
}

std::string RedisServer::info(const std::string& section, const std::string& field) {
  std::istringstream lines(must({"INFO", section}).text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.rfind(field + ":", 0) == 0) return line.substr(field.size() + 1);
  }
  return {};
}

std::map<std::string, std::int64_t> RedisServer::command_counts() {
  // cmdstat_config|get:calls=1,usec=...
  constexpr char kPrefix[] = "cmdstat_";
  constexpr char kCalls[] = ":calls=";
  std::map<std::string, std::int64_t> counts;
  std::istringstream lines(must({"INFO", "commandstats"}).text);
  for (std::string line; std::getline(lines, line);) {
    const auto calls = line.find(kCalls);
    if (line.rfind(kPrefix, 0) != 0 || calls == std::string::npos) continue;
    const std::size_t from = sizeof kPrefix - 1;
    counts[line.substr(from, calls - from)] = std::stoll(line.substr(calls + sizeof kCalls - 1));
  }
  return counts;
}

std::int64_t RedisServer::command_count(const std::string& name) {
  const auto counts = command_counts();
  const auto found = counts.find(lower(name));
  return found == counts.end() ? 0 : found->second;
}

void RedisServer::pause_between_questions() {
  ::poll(nullptr, 0, static_cast<int>(kBetweenQuestions.count()));
}

}  // namespace holdfast::support
