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
#include <vector>

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

MariadbServer::MariadbServer() {
  if (const auto why = unavailable()) throw std::runtime_error(*why);
  const std::string data = folder_.file("data");
  // Its own schema, made by mariadb-install-db in seconds, is only for users and plugins.
  std::filesystem::create_directories(data + "/test");
  std::vector<std::string> command = {program(),
                                      "--no-defaults",
                                      "--datadir=" + data,
                                      "--tmpdir=" + folder_.path(),
                                      "--socket=" + socket_path(),
                                      "--pid-file=" + folder_.file("pid"),
                                      "--skip-grant-tables",
                                      "--skip-networking",
                                      "--innodb-log-file-size=4M",
                                      "--innodb-buffer-pool-size=16M",
                                      "--innodb-flush-log-at-trx-commit=0",
                                      "--loose-innodb-use-native-aio=0",
                                      "--loose-innodb-doublewrite=0",
                                      "--aria-pagecache-buffer-size=8M",
                                      "--key-buffer-size=8M",
                                      "--skip-log-bin"};
  if (::geteuid() == 0) command.emplace_back("--user=root");
  process_ = std::make_unique<ChildProcess>(
      Command{.arguments = command, .environment = {}, .output = folder_.file("log")});
  const auto until = std::chrono::steady_clock::now() + kStart;
  while (!ready()) {
    if (!process_->running() || std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("MariaDB does not start: " + tail_of(folder_.file("log")));
    }
    std::this_thread::sleep_for(5ms);
  }
}

MariadbServer::~MariadbServer() = default;

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
