// Locks on memcached against the raw limit of the same server: contest.h says how.
//
// A bare pair: an `add` and a `delete` of the classic text protocol, so many in flight over one
// connection, from one thread that does nothing else. memcached tells nothing to those who wait:
// where contest.h measures a bare watch, a bare `delete` is measured here.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/contest.h"
#include "bench/figures.h"
#include "tests/support/memcached_server.h"

namespace holdfast::bench {
namespace {

using support::MemcachedServer;

class Socket {
 public:
  explicit Socket(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      std::perror("connect");
    }
  }
  ~Socket() { ::close(socket_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Both are small enough for the kernel's buffers.
  bool write(std::string& bytes) const {
    const bool whole = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                       static_cast<ssize_t>(bytes.size());
    bytes.clear();
    return whole;
  }
  bool read(std::string& bytes) const {
    char buffer[64 * 1024];
    const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
    if (count <= 0) return false;
    bytes.append(buffer, static_cast<std::size_t>(count));
    return true;
  }

  // One request of one line, and its answer of one line.
  void ask(std::string request) const {
    std::string answer;
    if (!write(request)) return;
    while (answer.find("\r\n") == std::string::npos && read(answer)) continue;
  }

 private:
  const int socket_;
};

class Pairs final : public RawPairs {
 public:
  Pairs(std::uint16_t port, int in_flight) : socket_(port) {
    for (int i = 0; i < in_flight; ++i) keys_.push_back("raw/" + std::to_string(i));
  }

  double run(int pairs) override {
    int left = pairs;
    std::size_t running = 0;
    std::vector<std::size_t> asked;  // Chains, in the order of their requests; a ring.
    std::size_t next = 0;
    std::vector<bool> added(keys_.size());
    std::string out;
    std::string in;
    const auto ask = [&](std::size_t chain) {
      if (!added[chain] && left == 0) return;
      if (added[chain]) {
        out += "delete " + keys_[chain] + "\r\n";
      } else {
        --left;
        out += "add " + keys_[chain] + " 0 60 5\r\nvalue\r\n";
      }
      added[chain] = !added[chain];
      asked.push_back(chain);
      ++running;
    };
    const auto begin = Clock::now();
    for (std::size_t chain = 0; chain < keys_.size(); ++chain) ask(chain);
    while (running > 0) {
      if (!out.empty() && !socket_.write(out)) return 0;
      if (!socket_.read(in)) return 0;
      std::size_t at = 0;
      for (std::size_t end = 0; (end = in.find("\r\n", at)) != std::string::npos; at = end + 2) {
        if (in[at] != 'S' && in[at] != 'D') return 0;  // STORED, DELETED.
        --running;
        ask(asked[next++]);
      }
      in.erase(0, at);
    }
    return pairs / seconds_since(begin);
  }

 private:
  const Socket socket_;
  std::vector<std::string> keys_;
};

class Watch final : public RawWatch {
 public:
  explicit Watch(std::uint16_t port) : socket_(port) {}
  double deletion_us() override { return time_of("delete none\r\n"); }
  double round_trip_us() override { return time_of("mg none\r\n"); }

 private:
  double time_of(const char* request) const {
    const auto begin = Clock::now();
    socket_.ask(request);
    return micros_since(begin);
  }
  const Socket socket_;
};

class Memcached final : public Site {
 public:
  // There is no session whose length could be set.
  std::string url(const std::string&) const override { return server_.url(); }
  pid_t process() const override { return server_.pid(); }
  std::unique_ptr<RawPairs> raw_pairs(int in_flight) override {
    return std::make_unique<Pairs>(server_.port(), in_flight);
  }
  std::unique_ptr<RawWatch> raw_watch() override { return std::make_unique<Watch>(server_.port()); }
  double requests() const override {
    double all = 0;
    for (const char* each : {"cmd_get", "cmd_set", "delete_hits", "delete_misses"}) {
      all += static_cast<double>(server_.stat(each));
    }
    return all;
  }

 private:
  const MemcachedServer server_;
};

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast;
  return bench::run_contest(argc, argv,
                            {.unavailable = support::MemcachedServer::unavailable(),
                             .start = [] { return std::make_unique<bench::Memcached>(); },
                             .in_flight = {1, 16, 256},
                             .pairs_per_round = 20'000,
                             .alone_blocks = true});
}
