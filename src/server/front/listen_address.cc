#include "src/server/front/listen_address.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include "holdfast/detail/number.h"

namespace holdfast::server {
namespace {

using asio::ip::tcp;

constexpr std::size_t kLongestHost = 255;

Error bad_address(const std::string& text, const std::string& why) {
  return {Errc::kInvalidArgument, "the address '" + text + "' " + why};
}

// Why a server with that door must not listen beyond loopback; empty: it may.
std::string missing(const FrontDoor& door) {
  if (door.users == nullptr) {
    return "is not of this host alone, and this server has no users: everybody on the network "
           "could take and break locks. Give it --users FILE, or listen on 127.0.0.1 or [::1]";
  }
  if (door.tls == nullptr && !door.plaintext) {
    return "is not of this host alone, and this server has no TLS: the network would hear the "
           "passwords. Give it --tls-cert FILE and --tls-key FILE, or --plaintext where the "
           "network itself encrypts";
  }
  return {};
}

}  // namespace

// One host has a whole /64 of IPv6 addresses to itself.
std::string place_of(const asio::ip::address& address) {
  if (!address.is_v6() || address.is_loopback()) return address.to_string();
  // A client by IPv4 on a port of both: all of those share one /64.
  if (address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + bytes.size() / 2, bytes.end(), std::uint8_t{0});
  return asio::ip::address_v6(bytes).to_string() + "/64";
}

Result<tcp::endpoint> parse_address(const std::string& text, const FrontDoor& door) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return bad_address(text, "has no port: write HOST:PORT");
  const auto port = detail::parse_number<std::uint16_t>(std::string_view(text).substr(colon + 1));
  if (!port) {
    return bad_address(text, "has no port from 0 to 65535 after the last ':': write HOST:PORT");
  }
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  std::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) {
    return bad_address(text,
                       "does not begin with an IP address: write one of this host's, or localhost");
  }
  if (const std::string why = missing(door); !address.is_loopback() && !why.empty()) {
    return bad_address(text, why);
  }
  return tcp::endpoint(address, *port);
}

Result<void> check_advertised(const std::string& address) {
  if (address.empty()) return {};
  const std::size_t colon = address.rfind(':');
  const auto port =
      colon == address.npos
          ? std::nullopt
          : detail::parse_number<std::uint16_t>(std::string_view(address).substr(colon + 1));
  const std::string host = address.substr(0, std::min(colon, address.size()));
  const bool bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  const bool one = bracketed || (!host.empty() && host.find(':') == host.npos);
  const bool clean = host.size() <= kLongestHost && host.find_first_of(" ,/@?#\t\n") == host.npos;
  if (port && *port != 0 && one && clean) return {};
  return Error(Errc::kInvalidArgument,
               "--advertise '" + address +
                   "' is not an address that clients can connect to: write HOST:PORT, with the "
                   "name or IP address of this host and the port that it listens on");
}

std::string http_address_for_others(const std::string& http, const std::string& listen,
                                    const std::string& advertise) {
  if (http.empty()) return {};
  const auto is_local = [](const std::string& address) {
    return address.starts_with("127.") || address.starts_with("[::1]");
  };
  // The main port is for other hosts, and this one is not.
  if (is_local(http) && !is_local(listen)) return {};
  const bool of_any = http.starts_with("0.0.0.0:") || http.starts_with("[::]:");
  const std::string& host = !advertise.empty() ? advertise : of_any ? listen : http;
  return host.substr(0, host.rfind(':')) + http.substr(http.rfind(':'));
}

Result<void> open_port(tcp::acceptor& acceptor, const std::string& address, const FrontDoor& door,
                       const std::string& option) {
  const auto endpoint = parse_address(address, door);
  if (!endpoint) {
    return Error(endpoint.error().code(), option + ": " + endpoint.error().message());
  }
  std::error_code error;
  acceptor.open(endpoint->protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(*endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return {};
  const bool denied = error == asio::error::access_denied;
  std::string advice;
  if (error == asio::error::address_in_use) {
    advice = ": another program uses the port; give another " + option;
  } else if (error.value() == EADDRNOTAVAIL) {
    advice = ": this host does not have that address; 'ip address' lists those that it has";
  } else if (denied) {
    advice = ": ports below 1024 need a permission; give " + option + " a larger one";
  }
  std::error_code ignored;
  acceptor.close(ignored);
  return Error(denied ? Errc::kPermissionDenied : Errc::kUnavailable,
               "cannot listen on " + address + ": " + error.message() + advice);
}

std::string address_of(const tcp::acceptor& acceptor) {
  std::error_code error;
  const tcp::endpoint at = acceptor.local_endpoint(error);
  const std::string host = at.address().to_string();
  const std::string port = std::to_string(at.port());
  return at.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

std::string lack_of_files(const std::error_code& error) {
  // Asio's errors have a category of its own, which the standard's conditions do not match.
  if (error.value() != EMFILE && error.value() != ENFILE) return {};
  return error.value() == EMFILE
             ? ". New clients wait. Raise the limit of open files: LimitNOFILE= in a systemd unit, "
               "or 'ulimit -Hn' in the shell that starts the server; a client needs four"
             : ". New clients wait. Raise the kernel's limit, fs.file-max";
}

}  // namespace holdfast::server
