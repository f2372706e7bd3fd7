// A blocking connection to a Redis, for a test that wants to ask or say something itself.
//
// Thread-safety: one thread at a time.
// Blocking: a call ends after its time limit at the latest, with an exception.
// Errors: std::runtime_error for the connection; what the server refuses is a Reply.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

struct redisContext;

namespace holdfast::support {

struct Reply {
  enum class Kind { kNil, kStatus, kString, kInteger, kArray, kError };

  bool is_nil() const { return kind == Kind::kNil; }
  bool is_error() const { return kind == Kind::kError; }
  // "OOM" of "OOM command not allowed ...", empty when it is no error.
  std::string error_code() const;
  const Reply& at(std::size_t index) const { return elements.at(index); }

  Kind kind = Kind::kNil;
  std::string text;  // The text of a status, a string or an error.
  std::int64_t integer = 0;
  std::vector<Reply> elements;
};

// As redis-cli writes it.
std::ostream& operator<<(std::ostream& out, const Reply& reply);

class RedisConnection {
 public:
  static constexpr std::chrono::milliseconds kLimit{5000};

  // A port of 127.0.0.1; without TLS.
  explicit RedisConnection(std::uint16_t port, std::chrono::milliseconds limit = kLimit);
  explicit RedisConnection(const std::string& socket_path,
                           std::chrono::milliseconds limit = kLimit);
  ~RedisConnection();
  RedisConnection(RedisConnection&&) noexcept;

  Reply command(const std::vector<std::string>& words);
  // Without waiting for the reply, and the next reply; for pipelining, SUBSCRIBE, MONITOR.
  void send(const std::vector<std::string>& words);
  Reply read();

  int fd() const;

 private:
  struct Free {
    void operator()(redisContext* context) const;
  };
  void check(const char* doing, std::chrono::milliseconds limit);

  std::unique_ptr<redisContext, Free> context_;
};

}  // namespace holdfast::support
