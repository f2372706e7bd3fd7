#include "src/server/http/credentials.h"

#include <array>
#include <cstdint>
#include <system_error>

#include <asio/ip/address.hpp>

#include "src/server/http/routes.h"

namespace holdfast::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>((bits >> count) & 0xffU);
  }
  return out;
}

}  // namespace

std::optional<Credentials> read_credentials(std::string_view authorization) {
  constexpr std::string_view kBasic = "basic ";
  if (lowered(authorization.substr(0, kBasic.size())) != kBasic) return std::nullopt;
  const auto plain = base64_decode(authorization.substr(kBasic.size()));
  if (!plain) return std::nullopt;
  const std::size_t colon = plain->find(':');
  if (colon == plain->npos) return std::nullopt;
  return Credentials{plain->substr(0, colon), plain->substr(colon + 1)};
}

std::optional<std::string> forwarded_for(const HttpRequest& request) {
  std::string_view text = request.forwarded;
  if (text.find('%') != text.npos) return std::nullopt;  // Behind it anything may stand.
  if (text.ends_with("/64")) text.remove_suffix(3);
  std::error_code error;
  asio::ip::make_address(text, error);
  return error ? std::nullopt : std::optional(request.forwarded);
}

std::string host_of(std::string_view authority) {
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  if (colon == authority.npos || (bracket != authority.npos && colon < bracket)) {
    return lowered(authority);
  }
  const std::string_view port = authority.substr(colon + 1);
  const bool is_port = port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
  return lowered(is_port ? authority.substr(0, colon) : authority);
}

std::optional<HttpAnswer> refuse_origin(const HttpRequest& request,
                                        const std::set<std::string>& hosts) {
  if (!hosts.contains(host_of(request.host))) {
    return http_error(421, "host", "this server does not go by the name in Host",
                      "start it with --http-host NAME to serve that name");
  }
  if (!request.origin.empty() && request.origin != "http://" + request.host &&
      request.origin != "https://" + request.host) {
    return http_error(403, "origin", "pages of another origin are not served", "send no Origin");
  }
  if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
  if (request.marker != "1") {
    return http_error(403, "header", "the header 'Holdfast-Request: 1' is missing", "send it");
  }
  if (lowered(request.content_type).substr(0, request.content_type.find(';')) !=
      "application/json") {
    return http_error(415, "content_type", "the body must be JSON",
                      "send 'Content-Type: application/json'");
  }
  return std::nullopt;
}

}  // namespace holdfast::server
