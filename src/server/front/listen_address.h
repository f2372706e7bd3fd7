// Addresses of this server's ports and of their clients.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <system_error>

#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>

#include "holdfast/result.h"
#include "src/server/front/front.h"

namespace holdfast::server {

// A client's address, for limits of each address. One host has a whole /64 of IPv6 addresses. On a
// port of both kinds a client by IPv4 has its IPv4 address.
std::string place_of(const asio::ip::address& address);

// "host:port", "[v6]:port". Errors: kInvalidArgument: no such address, or one that the door must
// not listen on.
Result<asio::ip::tcp::endpoint> parse_address(const std::string& text, const FrontDoor& door);

// ServerOptions::advertise: clients and other servers connect to it. Errors: kInvalidArgument.
Result<void> check_advertised(const std::string& address);

// Where other servers reach the HTTP port that listens on `http`, of a server whose main port
// listens on `listen`, and which tells `advertise` of itself if that is not empty. Empty: nowhere.
std::string http_address_for_others(const std::string& http, const std::string& listen,
                                    const std::string& advertise);

// Opens the port. `option` names it in messages ("--listen").
// Errors: as parse_address(); kUnavailable (the port is in use, or the address another host's),
// kPermissionDenied.
Result<void> open_port(asio::ip::tcp::acceptor& acceptor, const std::string& address,
                       const FrontDoor& door, const std::string& option);

// With the port that the system chose: "127.0.0.1:7420", "[::1]:7420".
std::string address_of(const asio::ip::tcp::acceptor& acceptor);

// This text tells operators what to do when descriptors have run out. Empty: it is another error.
std::string lack_of_files(const std::error_code& error);

}  // namespace holdfast::server
