#include "tests/support/postgres_server.h"

#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/clock_shift.h"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;

std::string folder_of_programs() {
  const char* chosen = std::getenv("HOLDFAST_POSTGRES_BIN");
  if (chosen != nullptr && *chosen != '\0') return std::string(chosen) + "/";
  int newest = 0;
  std::error_code none;
  for (const auto& version : fs::directory_iterator("/usr/lib/postgresql", none)) {
    const int number = std::atoi(version.path().filename().c_str());
    if (number > newest && fs::exists(version.path() / "bin/postgres")) newest = number;
  }
  if (newest == 0) return "";
  return "/usr/lib/postgresql/" + std::to_string(newest) + "/bin/";
}

const passwd* server_user() {
  for (const char* name : {"postgres", "nobody"}) {
    if (const passwd* user = ::getpwnam(name)) return user;
  }
  return nullptr;
}

// setpriv becomes the program: its process is the server. The parent-death signal is set anew,
// because the kernel forgets it when a process changes its user; SIGINT lets the server clean up.
std::vector<std::string> as_server_user(std::vector<std::string> command) {
  if (::geteuid() != 0) return command;
  const passwd* user = server_user();
  if (user == nullptr) throw std::runtime_error("no user postgres or nobody to run PostgreSQL as");
  std::vector<std::string> all = {"setpriv", "--reuid=" + std::to_string(user->pw_uid),
                                  "--regid=" + std::to_string(user->pw_gid), "--clear-groups",
                                  "--pdeathsig=INT"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

void give(const std::string& path) {
  if (::geteuid() != 0) return;
  const passwd* user = server_user();
  if (user == nullptr || ::chown(path.c_str(), user->pw_uid, user->pw_gid) != 0) {
    throw std::runtime_error("cannot give PostgreSQL " + path);
  }
}

}  // namespace

std::optional<std::string> PostgresServer::unavailable() {
  for (const char* program : {"postgres", "initdb"}) {
    if (!find_program(folder_of_programs() + program)) {
      return std::string("no program '") + program +
             "' (package postgresql, or its folder in HOLDFAST_POSTGRES_BIN)";
    }
  }
  if (::geteuid() == 0 && !find_program("setpriv")) {
    return "no program 'setpriv' (package util-linux): PostgreSQL refuses to run as root";
  }
  return std::nullopt;
}

PostgresServer::PostgresServer(PostgresOptions options) : options_(std::move(options)) {
  if (const auto why = unavailable()) throw std::runtime_error(*why);
  give(folder_.path());
  make_data();
  start();
}

std::string PostgresServer::data() const {
  return options_.data_folder.empty() ? folder_.file("data") : options_.data_folder;
}

void PostgresServer::make_data() const {
  if (!options_.data_folder.empty()) {
    fs::create_directory(data());
    fs::permissions(data(), fs::perms::owner_all);
    give(data());
  }
  std::vector<std::string> words = {"initdb", "-D", data(), "-U", "postgres", "-A", "trust", "-E",
                                    "UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"};
  if (options_.follows != 0) {
    words = {"pg_basebackup", "-D", data(), "-U", "postgres", "-h", "127.0.0.1",
             "-p", std::to_string(options_.follows), "-R", "-c", "fast", "--no-sync"};
  }
  words.front() = folder_of_programs() + words.front();
  ChildProcess making({.arguments = as_server_user(words),
                       .environment = {},
                       .output = folder_.file("making.log")});
  if (making.wait(kStart) != 0) {
    throw std::runtime_error("no data for PostgreSQL: " + tail_of(folder_.file("making.log")));
  }
}

std::vector<std::string> PostgresServer::command() const {
  std::vector<std::string> words = {
      folder_of_programs() + "postgres", "-D", data(), "-k", folder_.path(), "-p",
      std::to_string(port_.number())};
  const auto set = [&](const std::string& setting) { words.insert(words.end(), {"-c", setting}); };
  for (const char* setting :
       {"fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off",
        "shared_buffers=8MB", "max_connections=100", "dynamic_shared_memory_type=mmap"}) {
    set(setting);
  }
  set(options_.tcp ? "listen_addresses=127.0.0.1" : "listen_addresses=");
  if (options_.passwords) {
    const std::string rules = folder_.file("pg_hba.conf");
    std::ofstream(rules) << "host all all 127.0.0.1/32 scram-sha-256\nlocal all all trust\n";
    set("hba_file=" + rules);
  }
  if (options_.tls) {  // It insists on a key of its own that nobody else may read.
    const std::string key = folder_.file("server.key");
    fs::copy_file(options_.tls->key, key, fs::copy_options::overwrite_existing);
    fs::copy_file(options_.tls->certificate, key + ".pem", fs::copy_options::overwrite_existing);
    fs::permissions(key, fs::perms::owner_read);
    give(key);
    give(key + ".pem");
    for (const std::string& setting : {"ssl_key_file=" + key, "ssl_cert_file=" + key + ".pem"}) {
      set(setting);
    }
    set("ssl=on");
  }
  for (const std::string& setting : options_.settings) set(setting);
  return words;
}

void PostgresServer::start() {
  // The file of a killed server says that it is ready.
  std::error_code none;
  fs::remove(data() + "/postmaster.pid", none);
  std::vector<std::string> environment;
  if (!options_.clock_shift_file.empty()) {
    environment = {"LD_PRELOAD=" + clock_shim_library(),
                   clock_shim_variable(options_.clock_shift_file)};
  }
  process_ = std::make_unique<ChildProcess>(Command{.arguments = as_server_user(command()),
                                                    .environment = environment,
                                                    .output = folder_.file("log")});
  const auto until = std::chrono::steady_clock::now() + kStart;
  while (!ready()) {
    if (!process_->running() || std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("PostgreSQL does not start: " + tail_of(folder_.file("log")));
    }
    std::this_thread::sleep_for(5ms);
  }
}

void PostgresServer::kill9() { process_->kill9(); }

void PostgresServer::terminate() {
  process_->signal(SIGINT);
  process_->wait();
}

// SIGINT ends its sessions and frees what the kernel keeps for it, which SIGKILL would leave.
PostgresServer::~PostgresServer() {
  if (!process_ || !process_->running()) return;
  process_->signal(SIGINT);
  process_->wait();
}

// The eighth line of its pid file tells.
bool PostgresServer::ready() const {
  std::ifstream file(data() + "/postmaster.pid");
  std::string line;
  for (int i = 0; i < 8; ++i) {
    if (!std::getline(file, line)) return false;
  }
  return line.rfind("ready", 0) == 0;
}

std::string PostgresServer::connection_string(const std::string& user) const {
  return "host=" + folder_.path() + " port=" + std::to_string(port_.number()) + " user=" + user +
         " dbname=postgres connect_timeout=60";
}

std::string PostgresServer::url(const std::string& query) const {
  return "postgres+unix://" + folder_.path() + "?port=" + std::to_string(port_.number()) +
         "&user=postgres" + (query.empty() ? "" : "&" + query);
}

std::string PostgresServer::sql(const std::string& statement) const {
  std::vector<std::string> words = client();
  words.insert(words.end(), {"-c", statement});
  return run(std::move(words));
}

std::vector<std::string> PostgresServer::client() const {
  return {folder_of_programs() + "psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d",
          connection_string()};
}

}  // namespace holdfast::support
