// HTTP/1.1 as bytes: Boost.Beast reads requests and answers, and writes their heads.
//
// Guarantee: whatever the bytes are, a reader ends in a message or a refusal, and keeps no more
// than the limits. Thread-safety: one thread at a time. Blocking: never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::server {

constexpr std::size_t kMostHeadBytes = 8 * 1'024;
constexpr std::size_t kMostBodyBytes = 16 * 1'024;

struct HttpRequest {
  std::string method;
  std::string target;
  std::string host;
  std::string origin;
  std::string authorization;
  std::string content_type;
  std::string marker;     // The header Holdfast-Request.
  std::string forwarded;  // Holdfast-Forwarded, of another server: its caller's address.
  std::string body;
  bool keep_alive = false;
};

struct HttpAnswer {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};
};

class HttpReader {
 public:
  enum class Next : std::uint8_t { kMore, kRequest, kBad };

  HttpReader();
  ~HttpReader();
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;

  // Takes what it needs from the front of `bytes`. After kBad it must not be called again.
  Next take(std::string& bytes);
  // After kRequest, once. The next take() begins another one.
  HttpRequest request();
  // After kBad: 400, 413 or 431, its code, and why.
  unsigned refusal() const { return refusal_; }
  const char* code() const { return code_; }
  const std::string& why() const { return why_; }

 private:
  void refuse_size(unsigned status, const char* code, const char* part);

  struct Impl;
  std::unique_ptr<Impl> impl_;
  unsigned refusal_ = 400;
  const char* code_ = "bad_request";
  std::string why_ = "this is no request that the server reads";
};

// Reads the answer of another server to one request, which was not HEAD.
class HttpAnswerReader {
 public:
  enum class Next : std::uint8_t { kMore, kAnswer, kBad };

  explicit HttpAnswerReader(std::size_t longest_body);
  ~HttpAnswerReader();
  HttpAnswerReader(const HttpAnswerReader&) = delete;
  HttpAnswerReader& operator=(const HttpAnswerReader&) = delete;

  // After kAnswer or kBad it must not be called again.
  Next take(std::string_view bytes);
  // After kAnswer, once: with the headers that a caller needs.
  HttpAnswer answer();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// `head_only`: the answer to HEAD, which has no body.
std::string to_bytes(const HttpAnswer& answer, bool keep_alive, bool head_only);
// The connection ends with the answer.
std::string to_bytes(const HttpRequest& request);

}  // namespace holdfast::server
