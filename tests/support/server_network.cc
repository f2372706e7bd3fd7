#include "tests/support/server_network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/support/child_process.h"

namespace holdfast::support {
namespace {

bool is_private = false;

bool bring_loopback_up() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof "lo");
  const bool known = ::ioctl(socket, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  const bool up = known && ::ioctl(socket, SIOCSIFFLAGS, &request) == 0;
  ::close(socket);
  return up;
}

// A namespace lives as long as somebody has it open; -1: there can be none.
int open_namespace() {
  int handle = -1;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) return;
    handle = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  }).join();
  return handle;
}

// The shell stops at the first command that fails, and run() tells what it has said.
void configure(const std::string& commands) { run({"sh", "-ec", commands}); }

}  // namespace

bool keep_network_private() {
  if (is_private) return true;
  if (::geteuid() != 0 || ::unshare(CLONE_NEWNET) != 0) return false;
  std::ofstream forwards("/proc/sys/net/ipv4/ip_forward");
  forwards << "1" << std::flush;
  is_private = bring_loopback_up() && forwards.good();
  return is_private;
}

std::optional<std::string> ServerNetwork::unavailable() {
  if (::geteuid() != 0) return "only root may make one";
  if (!find_program("ip")) return "no program 'ip' (package iproute2)";
  if (!find_program("nsenter")) return "no program 'nsenter' (package util-linux)";
  if (!is_private) return "this process may have no network of its own";
  try {
    ServerNetwork network(2);
    network.cut(0, 1);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return std::nullopt;
}

ServerNetwork::ServerNetwork(std::size_t servers, std::size_t clients)
    : servers_(servers), hosts_(servers + clients) {
  if (!is_private) throw std::runtime_error("this process has no network of its own");
  try {
    for (Host& host : hosts_) link(host);
  } catch (...) {
    for (const Host& host : hosts_) ::close(host.handle);
    throw;
  }
}

ServerNetwork::~ServerNetwork() {
  try {
    heal();
  } catch (const std::runtime_error&) {  // The addresses are never used again.
  }
  for (const Host& host : hosts_) ::close(host.handle);
}

void ServerNetwork::link(Host& host) {
  static std::atomic<unsigned> links = 0;
  constexpr unsigned kPerSubnet = 64;  // Each link has four addresses.
  const unsigned number = links++;
  const std::string subnet = "10.77." + std::to_string(number / kPerSubnet) + ".";
  const unsigned first = number % kPerSubnet * 4;
  const std::string ours = subnet + std::to_string(first + 1);
  const std::string device = "server" + std::to_string(number);
  host.address = subnet + std::to_string(first + 2);
  host.handle = open_namespace();
  if (host.handle < 0) throw std::runtime_error("the kernel has no network namespaces");
  const std::string place =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(host.handle);
  configure("ip link add " + device + " type veth peer name eth0 netns " + place +
            "; ip address add " + ours + "/30 dev " + device + "; ip link set " + device +
            " up; exec nsenter --net=" + place + " sh -ec 'ip link set lo up; ip address add " +
            host.address + "/30 dev eth0; ip link set eth0 up; ip route add default via " + ours +
            "'");
}

std::string ServerNetwork::rule(const Way& way) const {
  return "from " + address(way.first) + " to " + address(way.second) + " blackhole; ";
}

ServerNetwork::Ways ServerNetwork::ways_of(std::size_t server) const {
  Ways ways;
  for (std::size_t other = 0; other < size(); ++other) {
    if (other != server) ways.insert({{server, other}, {other, server}});
  }
  return ways;
}

void ServerNetwork::cut(std::size_t one, std::size_t other) { drop({{one, other}, {other, one}}); }

void ServerNetwork::heal(std::size_t one, std::size_t other) {
  restore({{one, other}, {other, one}});
}

void ServerNetwork::cut_off(std::size_t server) { drop(ways_of(server)); }

void ServerNetwork::rejoin(std::size_t server) { restore(ways_of(server)); }

void ServerNetwork::drop(const Ways& ways) {
  std::string commands;
  for (const Way& way : ways) {
    if (!dropped_.contains(way)) commands += "ip rule add " + rule(way);
  }
  configure(commands);
  dropped_.insert(ways.begin(), ways.end());
}

void ServerNetwork::restore(const Ways& ways) {
  std::string commands;
  for (const Way& way : ways) {
    if (dropped_.count(way) == 1) commands += "ip rule delete " + rule(way);
  }
  configure(commands);
  for (const Way& way : ways) {
    if (const auto one = dropped_.find(way); one != dropped_.end()) dropped_.erase(one);
  }
}

void ServerNetwork::heal() {
  std::string commands;
  for (const Way& way : Ways(dropped_.begin(), dropped_.end())) {
    commands += "ip rule delete " + rule(way);
  }
  configure(commands);
  dropped_.clear();
}

}  // namespace holdfast::support
