// The lock service's second port: HTTP/1.1 (docs/design/0062-http-port.md).
//
// Guarantee: a connection has one request under way, and keeps no more bytes than one request and
// one answer. A client that sends no whole request in time, or does not read, is closed. Whoever
// has not logged in keeps no user out.
// Not guaranteed: that a request under way is answered when the server stops.
// Thread-safety: the loop only, but for the constructor, and listen() and guard() before the loop
// runs. Ownership: the loop and the services outlive it. Blocking: never. Time: boot time.
// Errors: listen() says why it cannot.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/server/front/front.h"
#include "src/server/http/http_forwarder.h"

namespace holdfast::server {

struct HttpLimits {
  // With users, connections that have not logged in make room, the oldest first.
  std::size_t connections = 1'024;
  std::size_t connections_of_address = 128;
  std::chrono::milliseconds request_time{10'000};  // For a whole request, and to read an answer.
  std::chrono::milliseconds idle_time{60'000};     // Between two requests.
  std::chrono::milliseconds first_time{5'000};     // Both at most, before the log-in (rule 65).
  std::size_t rate = 0;  // Requests of one connection in a second; 0: no limit.
  HttpForwarding forwarding{};
  GateLimits gate{};
};

class HttpFront {
 public:
  // `hosts`: more names by which browsers may call this server.
  HttpFront(asio::io_context& io, HttpLimits limits, Greeting greeting,
            std::vector<std::string> hosts, std::uint32_t shards = 1);
  ~HttpFront();
  HttpFront(const HttpFront&) = delete;
  HttpFront& operator=(const HttpFront&) = delete;

  // As the functions of Front. With several shards, stand_by() closes only the connections with a
  // request under way for that shard, or for all. Requests that were forwarded are answered then.
  void serve(std::uint32_t shard, Service& service);
  void stand_by(std::uint32_t shard, const std::string& leader);
  void note_journal(bool answers);
  // The HTTP ports of the other servers on the journal, by their main addresses. Requests for what
  // they lead are forwarded there.
  void note_places(std::map<std::string, std::string> places);
  void guard(FrontDoor door);
  void warn_by(std::function<void(const std::string&)> warn);
  void on_push(const ClientName& client, const port::Push& push);
  void on_effect(const machine::Effect& effect);
  Result<void> listen(const std::string& address);
  std::string address() const;
  // The main port's address, as clients are told it. Before the loop runs.
  void tell_address(const std::string& main_address);
  void close();

 private:
  struct Impl;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::server
