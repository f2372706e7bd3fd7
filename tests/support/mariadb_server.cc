#include "tests/support/mariadb_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
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

std::string program() {
  return chosen_or("HOLDFAST_MARIADBD",
                   find_program("mariadbd") ? "mariadbd" : "/usr/sbin/mariadbd");
}

}  // namespace

std::optional<std::string> MariadbServer::unavailable() {
  if (find_program(program())) return std::nullopt;
  return "no program '" + program() + "' (package mariadb-server, or HOLDFAST_MARIADBD)";
}

MariadbServer::MariadbServer(MariadbOptions options) : options_(std::move(options)) {
  if (const auto why = unavailable()) throw std::runtime_error(*why);
  if (options_.users) install();
  std::filesystem::create_directories(data() + "/test");
  start();
  if (options_.follows != 0) follow();
}

// Where there are no tables of the server's own, it needs one to replicate.
void MariadbServer::follow() const {
  if (!options_.users) {
    sql("CREATE DATABASE mysql; CREATE TABLE mysql.gtid_slave_pos ("
        "domain_id INT UNSIGNED NOT NULL, sub_id BIGINT UNSIGNED NOT NULL, "
        "server_id INT UNSIGNED NOT NULL, seq_no BIGINT UNSIGNED NOT NULL, "
        "PRIMARY KEY (domain_id, sub_id)) ENGINE = InnoDB");
  }
  sql("CHANGE MASTER TO master_host = '127.0.0.1', master_user = 'root', master_use_gtid = no, "
      "master_connect_retry = 1, master_port = " + std::to_string(options_.follows) +
      "; START SLAVE");
}

std::string MariadbServer::data() const {
  return options_.data_folder.empty() ? folder_.file("data") : options_.data_folder;
}

// The schema mysql takes seconds, and is only for users and plugins.
void MariadbServer::install() const {
  std::vector<std::string> command = {"mariadb-install-db", "--no-defaults",
                                      "--datadir=" + data(), "--skip-test-db",
                                      // In /tmp, servers of two pid namespaces use one name.
                                      "--tmpdir=" + folder_.path(),
                                      "--auth-root-authentication-method=normal"};
  if (::geteuid() == 0) command.emplace_back("--user=root");
  ChildProcess installer(
      {.arguments = command, .environment = {}, .output = folder_.file("install.log")});
  if (installer.wait(kStart) != 0) {
    throw std::runtime_error("mariadb-install-db failed: " + tail_of(folder_.file("install.log")));
  }
}

void MariadbServer::start() {
  std::vector<std::string> command = {program(),
                                      "--no-defaults",
                                      "--datadir=" + data(),
                                      "--tmpdir=" + folder_.path(),
                                      "--socket=" + socket_path(),
                                      "--pid-file=" + folder_.file("pid"),
                                      "--innodb-log-file-size=4M",
                                      "--innodb-buffer-pool-size=16M",
                                      "--innodb-flush-log-at-trx-commit=0",
                                      "--loose-innodb-use-native-aio=0",
                                      "--loose-innodb-doublewrite=0",
                                      "--aria-pagecache-buffer-size=8M",
                                      "--key-buffer-size=8M",
                                      "--skip-log-bin"};
  if (!options_.users) command.emplace_back("--skip-grant-tables");
  if (options_.tcp) {
    command.insert(command.end(), {"--bind-address=127.0.0.1", "--skip-name-resolve",
                                   "--port=" + std::to_string(port_.number())});
  } else {
    command.emplace_back("--skip-networking");
  }
  if (options_.follows != 0) {
    command.insert(command.end(), {"--server-id=2", "--read-only", "--skip-slave-start",
                                   "--relay-log=relay"});
  }
  if (::geteuid() == 0) command.emplace_back("--user=root");
  command.insert(command.end(), options_.settings.begin(), options_.settings.end());
  std::vector<std::string> environment;
  if (!options_.clock_shift_file.empty()) {
    environment = {"LD_PRELOAD=" + clock_shim_library(),
                   clock_shim_variable(options_.clock_shift_file)};
  }
  process_ = std::make_unique<ChildProcess>(Command{.arguments = command,
                                                    .environment = environment,
                                                    .output = folder_.file("log")});
  const auto until = std::chrono::steady_clock::now() + kStart;
  while (!ready()) {
    if (!process_->running() || std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("MariaDB does not start: " + tail_of(folder_.file("log")));
    }
    std::this_thread::sleep_for(5ms);
  }
}

MariadbServer::~MariadbServer() = default;

std::string MariadbServer::url(const std::string& query) const {
  return "mysql+unix://" + socket_path() + "?database=test&user=root" +
         (query.empty() ? "" : "&" + query);
}

std::string MariadbServer::sql(const std::string& statement) const {
  std::vector<std::string> words = client();
  words.insert(words.end(), {"--database=test", "--execute=" + statement});
  return run(std::move(words));
}

std::vector<std::string> MariadbServer::client() const {
  return {"mariadb", "--no-defaults", "--user=root", "--socket=" + socket_path(), "--batch",
          "--skip-column-names"};
}

// It greets whoever connects, as soon as it is ready.
bool MariadbServer::ready() const {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket_path();
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  bool greeted = false;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    pollfd readable{fd, POLLIN, 0};
    char byte = 0;
    greeted = ::poll(&readable, 1, 1000) == 1 && ::recv(fd, &byte, 1, 0) == 1;
  }
  ::close(fd);
  return greeted;
}

}  // namespace holdfast::support
