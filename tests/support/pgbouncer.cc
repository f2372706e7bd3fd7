#include "tests/support/pgbouncer.h"

#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <vector>

namespace holdfast::support {
namespace {

std::optional<std::string> pgbouncer_program() {
  for (const char* name : {"pgbouncer", "/usr/sbin/pgbouncer"}) {
    if (auto found = find_program(name)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> Pgbouncer::unavailable() {
  if (pgbouncer_program()) return std::nullopt;
  return "no program 'pgbouncer' (package pgbouncer)";
}

Pgbouncer::Pgbouncer(std::uint16_t server_port, int sessions, const std::string& mode) {
  if (const auto why = unavailable()) throw std::runtime_error(*why);
  const std::string config = folder_.file("pgbouncer.ini");
  std::ofstream(config) << "[databases]\n* = host=127.0.0.1 port=" << server_port
                        << " user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = "
                        << port_.number()
                        << "\nauth_type = any\nunix_socket_dir =\npool_mode = " << mode
                        << "\ndefault_pool_size = " << sessions << '\n';
  std::vector<std::string> command = {*pgbouncer_program(), config};
  if (::geteuid() == 0) command.insert(command.begin() + 1, {"-u", "nobody"});
  process_ = std::make_unique<ChildProcess>(
      Command{.arguments = command, .environment = {}, .output = folder_.file("log")});
}

}  // namespace holdfast::support
