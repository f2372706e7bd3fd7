#include "src/server/http/http_codec.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

namespace holdfast::server {

namespace http = boost::beast::http;

namespace {

// Two of one of them are read differently by different programs.
constexpr const char* kOnce[] = {"Host",         "Origin",           "Authorization",
                                 "Content-Type", "Holdfast-Request", "Holdfast-Forwarded"};

// An answer's caller needs these. The others are the same at every server.
constexpr http::field kPassedOn[] = {http::field::allow, http::field::retry_after,
                                     http::field::www_authenticate};

// A target may be a whole URL. Then its host counts, and not that of the header (RFC 9112, 3.2.2).
void split_url(HttpRequest& request) {
  const std::size_t colon = request.target.find("://");
  if (colon == std::string::npos) return;
  const std::string scheme = request.target.substr(0, colon);
  if (!boost::beast::iequals(scheme, "http") && !boost::beast::iequals(scheme, "https")) return;
  const std::size_t host = colon + 3;
  const std::size_t path =
      std::min(request.target.find_first_of("/?", host), request.target.size());
  request.host = request.target.substr(host, path - host);
  request.target.erase(0, path);
  if (!request.target.starts_with('/')) request.target.insert(0, 1, '/');
}

}  // namespace

struct HttpReader::Impl {
  Impl() { begin(); }
  void begin() {
    parser.emplace();
    parser->eager(true);
    parser->header_limit(kMostHeadBytes);
    parser->body_limit(kMostBodyBytes);
  }
  std::optional<http::request_parser<http::string_body>> parser;
};

HttpReader::HttpReader() : impl_(std::make_unique<Impl>()) {}
HttpReader::~HttpReader() = default;

void HttpReader::refuse_size(unsigned status, const char* code, const char* part) {
  refusal_ = status;
  code_ = code;
  why_ = std::string("the request's ") + part + " is too large";
}

HttpReader::Next HttpReader::take(std::string& bytes) {
  auto& parser = *impl_->parser;
  while (!parser.is_done() && !bytes.empty()) {
    boost::beast::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(bytes), error);
    bytes.erase(0, used);
    if (error == http::error::need_more) break;
    if (error) {
      if (error == http::error::body_limit) refuse_size(413, "body_too_large", "body");
      if (error == http::error::header_limit) refuse_size(431, "head_too_large", "head");
      return Next::kBad;
    }
  }
  if (!parser.is_done()) return Next::kMore;
  for (const char* name : kOnce) {
    if (parser.get().count(name) < 2) continue;
    why_ = std::string("the header '") + name + "' comes more than once";
    return Next::kBad;
  }
  if (parser.get().count(http::field::host) == 0) {
    why_ = "the header 'Host' is missing";
    return Next::kBad;
  }
  // Its body would be taken for the next request.
  if (parser.get().count(http::field::transfer_encoding) != 0 && !parser.chunked()) {
    return Next::kBad;
  }
  return Next::kRequest;
}

HttpRequest HttpReader::request() {
  const auto message = impl_->parser->release();
  impl_->begin();
  const auto text = [&](auto name) { return std::string(message[name]); };
  HttpRequest request{.method = std::string(message.method_string()),
                      .target = std::string(message.target()),
                      .host = text(http::field::host),
                      .origin = text(http::field::origin),
                      .authorization = text(http::field::authorization),
                      .content_type = text(http::field::content_type),
                      .marker = text("Holdfast-Request"),
                      .forwarded = text("Holdfast-Forwarded"),
                      .body = message.body(),
                      .keep_alive = message.keep_alive()};
  split_url(request);
  return request;
}

struct HttpAnswerReader::Impl {
  explicit Impl(std::size_t most) : longest_body(most) {
    parser.eager(true);
    parser.header_limit(kMostHeadBytes);
    parser.body_limit(most);
  }
  const std::size_t longest_body;
  http::response_parser<http::string_body> parser;
  std::string rest{};  // A line that has not ended.
};

HttpAnswerReader::HttpAnswerReader(std::size_t longest_body)
    : impl_(std::make_unique<Impl>(longest_body)) {}
HttpAnswerReader::~HttpAnswerReader() = default;

HttpAnswerReader::Next HttpAnswerReader::take(std::string_view bytes) {
  auto& parser = impl_->parser;
  std::string& rest = impl_->rest;
  rest += bytes;
  while (!parser.is_done() && !rest.empty()) {
    boost::beast::error_code error;
    rest.erase(0, parser.put(boost::asio::buffer(rest), error));
    if (error == http::error::need_more) break;
    if (error) return Next::kBad;
    // Beast forgets this refusal when a part of the body comes with the head.
    const bool tells = parser.is_header_done() && parser.content_length().has_value();
    if (tells && *parser.content_length() > impl_->longest_body) return Next::kBad;
  }
  if (!parser.is_done()) return Next::kMore;
  const unsigned status = parser.get().result_int();
  return status >= 200 && status < 600 ? Next::kAnswer : Next::kBad;
}

HttpAnswer HttpAnswerReader::answer() {
  auto message = impl_->parser.release();
  HttpAnswer answer{.status = message.result_int(),
                    .type = std::string(message[http::field::content_type]),
                    .body = std::move(message.body())};
  for (const http::field each : kPassedOn) {
    if (message.count(each) == 0) continue;
    answer.headers.emplace_back(http::to_string(each), message[each]);
  }
  return answer;
}

std::string to_bytes(const HttpAnswer& answer, bool keep_alive, bool head_only) {
  http::response<http::empty_body> head(static_cast<http::status>(answer.status), 11);
  head.set(http::field::content_type, answer.type);
  head.set(http::field::cache_control, "no-store");
  head.set("X-Content-Type-Options", "nosniff");
  head.set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
  for (const auto& [name, value] : answer.headers) head.set(name, value);
  head.content_length(answer.body.size());
  head.keep_alive(keep_alive);
  std::ostringstream out;
  out << head.base();
  std::string bytes = out.str();
  if (!head_only) bytes += answer.body;
  return bytes;
}

std::string to_bytes(const HttpRequest& request) {
  http::request<http::empty_body> head;
  head.version(11);
  head.method_string(request.method);
  head.target(request.target);
  head.set(http::field::host, request.host);
  const std::pair<const char*, const std::string&> others[] = {
      {"Authorization", request.authorization},
      {"Content-Type", request.content_type},
      {"Holdfast-Request", request.marker},
      {"Holdfast-Forwarded", request.forwarded}};
  for (const auto& [name, value] : others) {
    if (!value.empty()) head.set(name, value);
  }
  head.content_length(request.body.size());
  head.keep_alive(false);
  std::ostringstream out;
  out << head.base();
  return out.str() + request.body;
}

}  // namespace holdfast::server
