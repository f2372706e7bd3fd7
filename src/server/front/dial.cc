#include "src/server/front/dial.h"

#include <cstdint>
#include <system_error>
#include <utility>

#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>

namespace holdfast::server {
namespace {

using asio::ip::tcp;

constexpr std::uint16_t kMainPort = 7420;

}  // namespace

Dial::Dial(const DialTools& tools, Done done)
    : tools_(tools), done_(std::move(done)), resolver_(tools.io), socket_(tools.io) {}

void Dial::start(const std::string& address) {
  const auto place = port::parse_endpoint(address, {"", kMainPort}, "the leader's address");
  if (!place) return fail(place.error().message());
  place_ = *place;
  std::error_code error;
  const auto number = asio::ip::make_address(place_.host, error);
  if (!error) {
    const tcp::endpoint there(number, place_.port);
    return connect(tcp::resolver::results_type::create(there, place_.host, ""));
  }
  resolver_.async_resolve(place_.host, std::to_string(place_.port),
                          [self = shared_from_this()](std::error_code failed, const auto& found) {
                            if (!self->done_) return;
                            failed ? self->fail("its name is not known: " + failed.message())
                                   : self->connect(found);
                          });
}

void Dial::connect(const tcp::resolver::results_type& places) {
  asio::async_connect(socket_, places,
                      [self = shared_from_this()](std::error_code error, const tcp::endpoint&) {
                        if (!self->done_) return;
                        if (error) return self->fail(error.message());
                        std::error_code ignored;
                        self->socket_.set_option(tcp::no_delay(true), ignored);
                        self->socket_.non_blocking(true, ignored);
                        const int fd = self->socket_.release(error);
                        error ? self->fail(error.message()) : self->on_socket(fd);
                      });
}

void Dial::on_socket(int fd) {
  if (tools_.tls == nullptr) return std::exchange(done_, {})(Stream(tools_.ready, fd, nullptr));
  auto session = tools_.tls->session_to(fd, place_.host);
  if (session == nullptr || tools_.gate == nullptr) {
    Stream closes(tools_.ready, fd, nullptr);
    return fail("no TLS session can be begun");
  }
  tools_.gate->shake_hands(
      fd, std::move(session),
      [self = shared_from_this()](int shaken, std::unique_ptr<port::TlsSession> tls) {
        if (shaken < 0) {
          return self->fail("the TLS handshake failed; does --tls-ca vouch for its certificate?");
        }
        Stream stream(self->tools_.ready, shaken, std::move(tls));
        if (self->done_) std::exchange(self->done_, {})(std::move(stream));
      });
}

void Dial::fail(const std::string& why) {
  if (done_) std::exchange(done_, {})(Error(Errc::kUnavailable, why));
}

void Dial::close() {
  done_ = {};
  resolver_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
}

}  // namespace holdfast::server
