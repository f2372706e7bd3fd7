// The connections of a FaultProxy, and what the faults do to them. Internal to it.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fault_proxy.h"

namespace holdfast::support {

using SteadyTime = std::chrono::steady_clock::time_point;

// Bytes of the first request of a stream; 0: it is not complete; npos: this is no RESP.
std::size_t resp_request_size(std::string_view stream);

// One direction of a connection.
struct ProxyLane {
  struct Piece {
    std::string bytes;
    SteadyTime due;
    int held_by = 0;
    std::chrono::microseconds gap{};  // Not zero: byte by byte.
  };

  std::deque<Piece> queue;
  std::string partial;  // The beginning of a request.
  std::string tail;     // The last bytes of the message before, where a text may have begun.
  SteadyTime last_due;
  std::optional<std::size_t> reset_after;
  bool mute = false;   // Bytes were lost: no more of them.
  bool ended = false;  // The source has closed,
  bool shut = false;   // and the destination knows.
  bool blocked = false;
};

struct ProxyLink {
  // By direction: [0] is where bytes to the server come from.
  std::array<int, 2> sockets{-1, -1};
  std::array<ProxyLane, 2> lanes;
  std::string transcript;  // The first of what the client has sent.
  bool connecting = true;
  bool finished = false;
};

struct ProxyCopy {
  int socket = -1;
  std::string bytes;
  bool finished = false;
};

class ProxyLinks {
 public:
  explicit ProxyLinks(const ProxyOptions& options) : options_(options) {}
  ~ProxyLinks();
  ProxyLinks(const ProxyLinks&) = delete;
  ProxyLinks& operator=(const ProxyLinks&) = delete;

  void accept(int client);
  // The events to poll for, and the longest time to poll.
  std::vector<pollfd> wanted() const;
  std::optional<SteadyTime> next_due() const;
  // Takes what poll() said about wanted(), starting at `first`.
  void handle(const std::vector<pollfd>& polled, std::size_t first);

  void retarget(std::uint16_t server_port) { options_.server_port = server_port; }
  int add(const Fault& fault);
  void remove(int fault);
  void remove_all();
  void end_all(const std::string& text, bool with_reset);
  bool replay(const std::string& text, const std::string& preamble);

  const ProxyStats& stats() const { return stats_; }

 private:
  struct Active {
    Fault fault;
    int left = 0;
  };

  void read(ProxyLink& link, Direction direction);
  void take(ProxyLink& link, Direction direction, std::string bytes);
  void take_message(ProxyLink& link, Direction direction, std::string bytes);
  void apply(ProxyLink& link, Direction direction, int number, const Fault& fault,
             ProxyLane::Piece& piece);
  bool meets(const ProxyLink& link, Direction direction, const Fault& fault,
             std::string_view message) const;
  void remember(ProxyLink& link, const std::string& message);
  void pump(ProxyLink& link, Direction direction);
  bool send_some(ProxyLink& link, Direction direction);
  void lose(ProxyLane& lane, Direction direction);
  void end(ProxyLink& link, bool with_reset);
  void settle(ProxyLink& link);
  void connected(ProxyLink& link);
  void copy(const std::string& bytes, const std::string& preamble);
  void handle_copy(ProxyCopy& copy, short events);

  ProxyOptions options_;
  std::map<int, Active> faults_;
  int last_number_ = 0;
  std::list<ProxyLink> links_;
  std::list<ProxyCopy> copies_;
  std::deque<std::string> remembered_;
  ProxyStats stats_;
};

}  // namespace holdfast::support
