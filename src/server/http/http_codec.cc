#include "src/server/http/http_codec.h"

#include <optional>
#include <sstream>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

namespace holdfast::server {

namespace http = boost::beast::http;

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

HttpReader::Next HttpReader::take(std::string& bytes) {
  auto& parser = *impl_->parser;
  while (!parser.is_done() && !bytes.empty()) {
    boost::beast::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(bytes), error);
    bytes.erase(0, used);
    if (error == http::error::need_more) break;
    if (error) {
      if (error == http::error::body_limit) refusal_ = 413;
      if (error == http::error::header_limit) refusal_ = 431;
      return Next::kBad;
    }
  }
  if (!parser.is_done()) return Next::kMore;
  // Two of them are read differently by different programs.
  if (parser.get().count(http::field::host) != 1) return Next::kBad;
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
  return {.method = std::string(message.method_string()),
          .target = std::string(message.target()),
          .host = text(http::field::host),
          .origin = text(http::field::origin),
          .authorization = text(http::field::authorization),
          .content_type = text(http::field::content_type),
          .marker = text("Holdfast-Request"),
          .body = message.body(),
          .keep_alive = message.keep_alive()};
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

}  // namespace holdfast::server
