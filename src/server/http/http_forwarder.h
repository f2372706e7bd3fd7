// Requests for locks that another server leads: its HTTP port answers them
// (docs/design/0062-http-port.md).
//
//   Dial ─ one request, with the caller's own log-in ─ one answer ─ end of the connection
//
// Guarantee: a request is sent once, or not at all. `told` is called once, perhaps within ask(),
// unless the request was cancelled or stop() came before. An answer and all answers together have
// a longest size, and each request a longest time.
// Not guaranteed: that the leader has not applied a request that failed with kOutcomeUnknown.
//
// Thread-safety: the loop only; stop() and the destructor also where the loop has ended.
// Ownership: the loop outlives it. Time: boot time. Blocking: never.
// Errors: kUnavailable: it was surely not applied, because it was not sent; kQueueFull: too many
// are under way; kOutcomeUnknown: it was sent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "holdfast/result.h"
#include "src/port/alarms.h"
#include "src/server/front/dial.h"
#include "src/server/http/http_codec.h"

namespace holdfast::server {

struct HttpForwarding {
  // Counted from when the caller's whole request is here, beside the time that it waits for a lock.
  // A commit may take so long while etcd changes its leader.
  std::chrono::milliseconds change_time{15'000};
  std::chrono::milliseconds read_time{3'000};
  std::chrono::milliseconds dial_time{3'000};
  std::size_t longest_answer = std::size_t{4} << 20U;
  std::size_t longest_answers = std::size_t{64} << 20U;  // All together.
  // At one leader, which takes a few more connections of one address. One caller's address has a
  // half of them. Calls that wait for a lock leave a third to others.
  std::size_t of_leader = 96;
};

class HttpForwarder {
 public:
  using Told = std::function<void(Result<HttpAnswer>)>;

  struct Ask {
    std::string leader;                    // The server's main address.
    std::optional<std::uint32_t> shard{};  // The lock's.
    std::string caller{};                  // An address.
    std::chrono::milliseconds wait{};      // So long it may wait for a lock.
    bool waits() const { return wait.count() > 0; }
  };

  HttpForwarder(asio::io_context& io, std::shared_ptr<ReadySet> ready, HttpForwarding limits);
  ~HttpForwarder();
  HttpForwarder(const HttpForwarder&) = delete;
  HttpForwarder& operator=(const HttpForwarder&) = delete;

  // For requests from now on. Both may be null; `gate` not where there is `tls`.
  void use(port::ServerTlsPtr tls, Gate* gate);
  // The HTTP ports of the other servers, by their main addresses.
  void note_places(std::map<std::string, std::string> places) { places_ = std::move(places); }
  // A page of locks has so many bytes at most: the rest of the answer needs some, too.
  std::size_t longest_page() const { return limits_.longest_answer / 4 * 3; }
  bool can_ask(const std::string& leader) const { return places_.contains(leader); }

  // can_ask() must be true. The returned function cancels the request, if it is still under way.
  std::function<void()> ask(const Ask& ask, HttpRequest request, Told told);
  // Another server leads that shard from now on: what it was asked fails.
  void end(std::uint32_t shard);
  void stop();

 private:
  class Exchange;
  using ExchangePtr = std::shared_ptr<Exchange>;

  bool has_room(const Ask& ask) const;

  asio::io_context& io_;
  const std::shared_ptr<ReadySet> ready_;
  const HttpForwarding limits_;
  port::Alarms alarms_;
  port::ServerTlsPtr tls_;
  Gate* gate_ = nullptr;
  std::map<std::string, std::string> places_;
  std::set<ExchangePtr> exchanges_;
  std::size_t received_ = 0;  // Bytes of unfinished answers.
};

}  // namespace holdfast::server
