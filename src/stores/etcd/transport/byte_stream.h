// A connection to one server: its host is looked up, its addresses are tried in turn, and TLS is
// agreed on where the URL asks for it.
//
// Guarantee: no name is looked up on the loop. Each address, TLS included, takes at most its share
// of the time: what is left of it, divided by the addresses left. TLS 1.2 or later; the server's
// certificate is checked against the trusted ones and the expected name.
//
// Thread-safety: the loop only. Ownership: operations under way keep the stream; the io_context
// outlives it. Errors: connect() says what failed, for errors.h; after close() nothing is called.
// The constructor throws std::system_error where there is no descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include <asio/ip/tcp.hpp>
#include <asio/ssl.hpp>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/boot_timer.h"
#include "src/port/url_parts.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores::etcd {

// How to reach the servers of a URL: their TLS.
struct TlsSettings {
  asio::ssl::context context{asio::ssl::context::tls_client};
  std::string name;  // The expected one; empty: the server's host.

  // Null without TLS. Errors: kInvalidArgument, naming the option and the file.
  static Result<std::shared_ptr<TlsSettings>> make(const EtcdAddress& address);
};

class ByteStream : public std::enable_shared_from_this<ByteStream> {
 public:
  // Empty: connected. Otherwise what failed.
  using Connected = std::function<void(const std::string& why)>;
  using Moved = std::function<void(const std::error_code& error, std::size_t bytes)>;
  using Addresses = asio::ip::tcp::resolver::results_type;

  ByteStream(asio::io_context& io, std::shared_ptr<TlsSettings> tls)
      : io_(io), tls_(std::move(tls)), timer_(std::in_place, io), socket_(io) {}

  // The owner closes it when that time has come.
  void connect(const port::Endpoint& server, base::BootInstant by, Connected done);
  // The same without a look-up.
  void connect(const port::Endpoint& server, Addresses addresses, base::BootInstant by,
               Connected done);
  // One read and one write at a time.
  void read(char* into, std::size_t size, Moved done);
  // True: all bytes have gone, and `done` is not called. Otherwise they stay in place until it is.
  bool write(const char* from, std::size_t size, Moved done);
  void close();

 private:
  struct Mailbox;

  void look_up();
  void found(Addresses addresses);
  void try_next(const std::string& why);
  void start_share();
  void on_socket();
  void finish(const std::string& why);

  asio::io_context& io_;
  const std::shared_ptr<TlsSettings> tls_;
  port::Endpoint server_;
  Connected done_;
  std::shared_ptr<Mailbox> mailbox_;  // Takes the addresses to the loop, while there is one.
  Addresses addresses_;
  Addresses::iterator next_;
  std::size_t untried_ = 0;
  base::BootInstant by_;
  std::optional<port::BootTimer> timer_;  // It ends an address' share; none once connected.
  bool late_ = false;                     // The address has used its share up.
  asio::ip::tcp::socket socket_;
  std::unique_ptr<asio::ssl::stream<asio::ip::tcp::socket&>> secure_;
  bool closed_ = false;
};

}  // namespace holdfast::stores::etcd
