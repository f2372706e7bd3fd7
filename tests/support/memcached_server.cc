#include "tests/support/memcached_server.h"

#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/support/clock_shift.h"

namespace holdfast::support {
namespace {

std::string memcached_program() { return chosen_or("HOLDFAST_MEMCACHED_SERVER", "memcached"); }

// setpriv becomes the program. The parent-death signal is set anew, because the kernel forgets it
// when a process changes its user; so the server's own -u would not do.
std::vector<std::string> as_memcached_user(std::vector<std::string> command) {
  if (::geteuid() != 0) return command;
  for (const char* name : {"memcache", "nobody"}) {
    const passwd* const user = ::getpwnam(name);
    if (user == nullptr) continue;
    std::vector<std::string> all = {"setpriv", "--reuid=" + std::to_string(user->pw_uid),
                                    "--regid=" + std::to_string(user->pw_gid), "--clear-groups",
                                    "--pdeathsig=KILL"};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  throw std::runtime_error("no user memcache or nobody to run memcached as");
}

}  // namespace

std::optional<std::string> MemcachedServer::unavailable() {
  if (!find_program(memcached_program())) {
    return "no program '" + memcached_program() + "' (package memcached)";
  }
  if (::geteuid() == 0 && !find_program("setpriv")) {
    return "no program 'setpriv' (package util-linux): memcached refuses to run as root";
  }
  return std::nullopt;
}

MemcachedServer::MemcachedServer(std::vector<std::string> arguments, std::string clock_shift_file)
    : arguments_(std::move(arguments)), clock_shift_file_(std::move(clock_shift_file)) {
  if (const auto why = unavailable()) throw std::runtime_error(*why);
  start();
}

MemcachedServer::~MemcachedServer() = default;

void MemcachedServer::start() {
  std::vector<std::string> command = {memcached_program(), "-l", "127.0.0.1", "-p",
                                      std::to_string(port_.number()), "-U", "0", "-t", "1"};
  command.insert(command.end(), arguments_.begin(), arguments_.end());
  std::vector<std::string> environment;
  if (!clock_shift_file_.empty()) {
    environment = {"LD_PRELOAD=" + clock_shim_library(), clock_shim_variable(clock_shift_file_)};
  }
  process_ = std::make_unique<ChildProcess>(Command{.arguments = as_memcached_user(command),
                                                    .environment = environment,
                                                    .output = folder_.file("log")});
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const std::string mine = std::to_string(process_->pid());
  // Its own pid: another's answer is none.
  while (exchange_on_loopback(port_.number(), "stats\r\nquit\r\n", 1s).find("pid " + mine + "\r") ==
         std::string::npos) {
    if (!process_->running() || std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("memcached does not start: " + tail_of(folder_.file("log")));
    }
    std::this_thread::sleep_for(2ms);
  }
}

void MemcachedServer::kill9() { process_->kill9(); }
void MemcachedServer::terminate() { process_->terminate(); }

std::string MemcachedServer::url(const std::string& query) const {
  std::string url = "memcached://127.0.0.1:" + std::to_string(port_.number());
  if (!query.empty()) url += '?' + query;
  return url;
}

std::string MemcachedServer::command(const std::string& line) const {
  return exchange_on_loopback(port_.number(), line + "\r\nquit\r\n", kPatience);
}

std::uint64_t MemcachedServer::stat(const std::string& name) const {
  const std::string text = command("stats");
  const std::string begin = "STAT " + name + ' ';
  const std::size_t at = text.find(begin);
  if (at == text.npos) throw std::runtime_error("memcached has no figure '" + name + "'");
  return std::stoull(text.substr(at + begin.size()));
}

}  // namespace holdfast::support
