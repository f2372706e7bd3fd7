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

std::string mariadb_program() {
  return chosen_or("HOLDFAST_MARIADBD",
                   find_program("mariadbd") ? "mariadbd" : "/usr/sbin/mariadbd");
}

bool is_mysql(const std::string& program) {
  return run({program, "--no-defaults", "--version"}).find("MariaDB") == std::string::npos;
}

// Empty: there is none. MariaDB's packages have a program of this name, too.
std::string mysql_program() {
  const std::string unpacked =
      chosen_or("XDG_CACHE_HOME", chosen_or("HOME", "") + "/.cache") + "/holdfast/mysql/bin/mysqld";
  const std::string chosen = chosen_or("HOLDFAST_MYSQLD", "");
  for (const std::string& each :
       chosen.empty() ? std::vector<std::string>{"mysqld", "/usr/sbin/mysqld", unpacked}
                      : std::vector<std::string>{chosen}) {
    if (find_program(each) && is_mysql(each)) return each;
  }
  return {};
}

}  // namespace

std::optional<std::string> MariadbServer::unavailable() {
  if (find_program(mariadb_program())) return std::nullopt;
  return "no program '" + mariadb_program() + "' (package mariadb-server, or HOLDFAST_MARIADBD)";
}

std::optional<std::string> MariadbServer::mysql_unavailable() {
  if (!mysql_program().empty()) return std::nullopt;
  return "no mysqld of MySQL 8 in PATH, and scripts/mysql-server has unpacked none "
         "(or name one in HOLDFAST_MYSQLD)";
}

MariadbServer::MariadbServer(MariadbOptions options)
    : options_(std::move(options)),
      program_(options_.mysql ? mysql_program() : mariadb_program()),
      is_mysql_(find_program(program_) && is_mysql(program_)) {
  if (const auto why = options_.mysql ? mysql_unavailable() : unavailable()) {
    throw std::runtime_error(*why);
  }
  if (is_mysql_) {
    install_mysql();
  } else {
    if (options_.users) install();
    std::filesystem::create_directories(data() + "/test");
  }
  start();
  if (is_mysql_) let_root_in_by_tcp();
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
      "master_connect_retry = 1, master_port = " +
      std::to_string(options_.follows) + "; START SLAVE");
}

std::string MariadbServer::data() const {
  return options_.data_folder.empty() ? folder_.file("data") : options_.data_folder;
}

// The schema mysql takes seconds, and is only for users and plugins.
void MariadbServer::install() const {
  std::vector<std::string> command = {
      "mariadb-install-db", "--no-defaults", "--datadir=" + data(), "--skip-test-db",
      // In /tmp, servers of two pid namespaces use one name.
      "--tmpdir=" + folder_.path(), "--auth-root-authentication-method=normal"};
  if (::geteuid() == 0) command.emplace_back("--user=root");
  ChildProcess installer(
      {.arguments = command, .environment = {}, .output = folder_.file("install.log")});
  if (installer.wait(kStart) != 0) {
    throw std::runtime_error("mariadb-install-db failed: " + tail_of(folder_.file("install.log")));
  }
}

// MySQL has its tables of users always: without them it would serve no port.
void MariadbServer::install_mysql() const {
  std::vector<std::string> command = {program_,
                                      "--no-defaults",
                                      "--initialize-insecure",
                                      "--datadir=" + data(),
                                      "--innodb-log-file-size=4M",
                                      "--innodb-buffer-pool-size=16M"};
  if (::geteuid() == 0) command.emplace_back("--user=root");
  ChildProcess installer(
      {.arguments = command, .environment = {}, .output = folder_.file("install.log")});
  if (installer.wait(kStart) != 0) {
    throw std::runtime_error("MySQL makes no data: " + tail_of(folder_.file("install.log")));
  }
}

void MariadbServer::let_root_in_by_tcp() const {
  std::vector<std::string> words = client();
  words.emplace_back(
      "--execute=CREATE DATABASE IF NOT EXISTS test;"
      "CREATE USER IF NOT EXISTS root@'127.0.0.1'; GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT "
      "OPTION");
  run(std::move(words));
}

std::vector<std::string> MariadbServer::arguments() const {
  std::vector<std::string> command = {program_,
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
                                      "--loose-aria-pagecache-buffer-size=8M",
                                      "--key-buffer-size=8M",
                                      "--skip-log-bin"};
  if (is_mysql_) {
    command.insert(command.end(), {"--loose-mysqlx=0", "--performance-schema=0",
                                   "--default-authentication-plugin=mysql_native_password"});
  } else if (!options_.users) {
    command.emplace_back("--skip-grant-tables");
  }
  if (options_.tcp) {
    command.insert(command.end(), {"--bind-address=127.0.0.1", "--skip-name-resolve",
                                   "--port=" + std::to_string(port_.number())});
  } else {
    command.emplace_back("--skip-networking");
  }
  if (options_.follows != 0) {
    command.insert(command.end(),
                   {"--server-id=2", "--read-only", "--skip-slave-start", "--relay-log=relay"});
  }
  if (::geteuid() == 0) command.emplace_back("--user=root");
  command.insert(command.end(), options_.settings.begin(), options_.settings.end());
  return command;
}

void MariadbServer::start() {
  std::vector<std::string> environment;
  if (!options_.clock_shift_file.empty()) {
    environment = {"LD_PRELOAD=" + clock_shim_library(),
                   clock_shim_variable(options_.clock_shift_file)};
  }
  process_ = std::make_unique<ChildProcess>(
      Command{.arguments = arguments(), .environment = environment, .output = folder_.file("log")});
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
  return {"mariadb", "--no-defaults",      "--user=root", "--socket=" + socket_path(),
          "--batch", "--skip-column-names"};
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
