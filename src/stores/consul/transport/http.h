// Requests to Consul's HTTP interface, over libcurl.
//
// The client's event loop sends them. Their number at a time stays below Consul's limit on
// connections (http_max_conns_per_client, 200); more requests wait for their turn, except urgent
// ones that keep the session alive.
//
// Guarantee: every request is answered once, by its time limit or stop() at the latest. A writing
// request goes over the wire once: libcurl's own retry over a new connection is disabled for it.
// kUnavailable: nothing of the request has left. kOutcomeUnknown: it may be carried out, now or
// later. Every answer of Consul, also a refusal, is a reply; see errors.h.
//
// Not guaranteed: which agent of the URL is asked, because a failed one is left for the next. Nor
// an answer to a request after stop().
//
// Thread-safety: the loop only.
// Ownership: requests under way own their data. Messages never contain the token.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/stores/consul/url.h"

namespace asio {
class io_context;
}

namespace holdfast::stores::consul {

inline std::chrono::milliseconds left_until(base::BootInstant deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - base::BootClock::now());
}

struct HttpRequest {
  enum class Method : std::uint8_t { kGet, kPut, kDelete };
  Method method = Method::kGet;
  std::string target{};  // "/v1/kv/x?consistent": encoded, the datacenter not yet in it.
  std::string body{};
  // For a request that changes nothing: it may be sent again, and its failure is kUnavailable.
  bool reads = false;
  bool waits = false;   // A blocking query, which keeps a connection to itself.
  bool urgent = false;  // Does not wait for its turn.
  std::chrono::milliseconds limit{5000};
};

struct HttpReply {
  int status = 0;
  std::uint64_t index = 0;  // X-Consul-Index; 0: none.
  std::string body;
  bool doubtful = false;  // A refusal that may be passing (refusals.h).
};
using HttpDone = std::function<void(Result<HttpReply>)>;

// Chooses the agent that all requests of this client go to.
class Agents {
 public:
  explicit Agents(const ConsulAddress& address);

  const ConsulAddress& address() const { return address_; }
  std::size_t current() const { return current_; }
  // The agent failed: the next one is asked from now on, unless somebody has moved on already.
  void leave(std::size_t agent);
  std::string url(std::size_t agent, const std::string& target) const;
  const std::string& connect_to(std::size_t agent) const { return connect_to_[agent]; }

 private:
  const ConsulAddress address_;
  std::vector<std::string> bases_;
  std::vector<std::string> connect_to_;
  std::size_t current_ = 0;
};

// "a/b c" as it stands in a URL's path.
std::string encode_path(std::string_view text);
// The path to ask for to read that key.
inline std::string key_target(std::string_view key) { return "/v1/kv/" + encode_path(key); }

class HttpLoop {
 public:
  HttpLoop(asio::io_context& io, std::shared_ptr<Agents> agents);
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  // `done` is called on the loop, never inline. The number is for drop().
  std::uint64_t send(HttpRequest request, HttpDone done);
  // Ends the request without calling `done`. Does nothing for an ended one.
  void drop(std::uint64_t number);
  // Ends waiting requests with kClosed, also those that a caller sends from inside its kClosed
  // answer. Later requests are never answered, because their caller may be gone by then.
  void stop();
  // In a forked child: sends nothing on the parent's sockets.
  void abandon() noexcept;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::stores::consul
