// Connects to another server of the service: its name, TCP, and TLS where the servers have it.
//
// Guarantee: `done` is called once, perhaps within start(), unless close() comes before.
// Not guaranteed: an end in time. The caller has its own patience, and closes it.
//
// Thread-safety: the loop's thread. Ownership: its handlers keep it alive. All that DialTools names
// outlives it. Blocking: never.
// Errors: kUnavailable, and why.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <asio/ip/tcp.hpp>

#include "holdfast/result.h"
#include "src/port/service/server_tls.h"
#include "src/port/url_parts.h"
#include "src/server/access/gate.h"
#include "src/server/front/ready_set.h"
#include "src/server/front/stream.h"

namespace holdfast::server {

struct DialTools {
  asio::io_context& io;
  std::shared_ptr<ReadySet> ready;
  port::ServerTlsPtr tls;  // Null: the servers speak plain text.
  Gate* gate;              // Null without users and TLS.
};

class Dial : public std::enable_shared_from_this<Dial> {
 public:
  using Done = std::function<void(Result<Stream>)>;

  Dial(const DialTools& tools, Done done);

  // Call it once.
  void start(const std::string& address);
  void close();

 private:
  void connect(const asio::ip::tcp::resolver::results_type& places);
  void on_socket(int fd);
  void fail(const std::string& why);

  const DialTools tools_;
  Done done_;  // Empty: it is over.
  port::Endpoint place_;
  asio::ip::tcp::resolver resolver_;
  asio::ip::tcp::socket socket_;  // Until it is connected.
};

}  // namespace holdfast::server
