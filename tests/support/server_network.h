// A network between the servers of a test, in which some can be cut off from others. Needs root.
//
//   [[maybe_unused]] const bool kNetwork = support::keep_network_private();  // Before any thread.
//   ...
//   ServerNetwork network(3);
//   ChildProcess server({..., .network = network.handle(0)});  // Listens on network.address(0).
//   network.cut(0, 1);   // Neither hears of the other any more; the test still reaches both.
//   network.heal();
//
// Clients can have a place in it, too: ServerNetwork(3, 2) has the servers 0 to 2 and the clients 3
// and 4.
//
// Every server has a network namespace of its own, as if it were a host. Its only way out leads to
// the network of the test process, which is its own as well: it forwards what servers say to each
// other, or drops it. So nothing is seen, or can be reached, from anywhere else on this machine.
//
// Guarantee: when cut() returns, no packet goes between the two, of old connections neither; what
// is lost is lost silently, as on a way that is cut. When heal() returns all packets go again. A
// way that was cut twice is open after its second heal(), or after the heal() of all.
// Not guaranteed: that an old connection goes on at once: TCP sends again when it thinks best.
//
// Thread-safety: one thread at a time.
// Ownership: the namespaces go with the object and the servers in them, or with the process,
// however that ends. Errors: std::runtime_error: it cannot be made here.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::support {

// From now on this process and its children have a network of their own, with nothing in it but
// the loopback interface. To be called before there is any thread: one that is there stays
// outside. False: it is not allowed; then there are no ServerNetworks either.
bool keep_network_private();

class ServerNetwork {
 public:
  // Why there can be none here; nothing: it can.
  static std::optional<std::string> unavailable();

  explicit ServerNetwork(std::size_t servers, std::size_t clients = 0);
  ~ServerNetwork();
  ServerNetwork(const ServerNetwork&) = delete;
  ServerNetwork& operator=(const ServerNetwork&) = delete;

  std::size_t size() const { return servers_; }  // Without the clients.
  // An IPv4 address, at which the test and the others reach it.
  const std::string& address(std::size_t host) const { return hosts_.at(host).address; }
  // For Command::network.
  int handle(std::size_t host) const { return hosts_.at(host).handle; }

  void cut(std::size_t one, std::size_t other);
  void heal(std::size_t one, std::size_t other);
  void cut_off(std::size_t server);  // From all other servers.
  void rejoin(std::size_t server);   // Ends that.
  void heal();                       // All ways.

 private:
  struct Host {
    std::string address;
    int handle = -1;
  };

  using Way = std::pair<std::size_t, std::size_t>;  // From the first to the second.
  using Ways = std::set<Way>;

  void link(Host& host);
  std::string rule(const Way& way) const;
  Ways ways_of(std::size_t server) const;
  void drop(const Ways& ways);
  void restore(const Ways& ways);

  const std::size_t servers_;
  std::vector<Host> hosts_;
  std::multiset<Way> dropped_;
};

// Skips the test loudly where there can be none.
#define HOLDFAST_NEEDS_SERVER_NETWORK()                                         \
  if (const auto why_not = ::holdfast::support::ServerNetwork::unavailable()) { \
    GTEST_SKIP() << "SKIPPED: no network between servers: " << *why_not;        \
  }

}  // namespace holdfast::support
