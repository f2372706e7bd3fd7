// The requests to Consul, and its answers.
//
// Keys and sessions go into requests as they are: they are made of characters that JSON takes
// (keys.h, url.h). Thread-safety: values and pure functions. Errors: kCorruptState for an answer
// that makes no sense, else what errors.h makes of a refusal; nothing that comes from outside
// aborts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/stores/consul/transport/http.h"

namespace holdfast::stores::consul {

// The steps of a transaction: all are done, or none. At most 64.
class Transaction {
 public:
  Transaction& check_index(std::string_view key, std::uint64_t index);
  Transaction& check_not_exists(std::string_view key);
  Transaction& check_session(std::string_view key, std::string_view session);
  // Acquires a key that is free, or the session's already.
  Transaction& lock(std::string_view key, std::string_view value, std::string_view session,
                    std::uint64_t flags = 0);
  Transaction& unlock(std::string_view key, std::string_view value, std::string_view session,
                      std::uint64_t flags = 0);
  Transaction& set(std::string_view key, std::string_view value);
  Transaction& get(std::string_view key);  // Fails where there is none.
  Transaction& get_tree(std::string_view prefix);
  Transaction& erase(std::string_view key);
  Transaction& erase_if(std::string_view key, std::uint64_t index);

  std::size_t size() const { return size_; }
  std::string body() const { return "[" + steps_ + "]"; }

 private:
  void add(const char* verb, std::string_view key, const std::string& rest = {});

  std::string steps_;
  std::size_t size_ = 0;
};

struct Pair {
  std::string key;
  std::string encoded;  // The value, as it came: of a long queue hardly any is looked at.
  std::string session;  // Empty: nobody's.
  std::uint64_t flags = 0;
  std::uint64_t created = 0;
  std::uint64_t modified = 0;

  std::string value() const;
};

struct TransactionReply {
  bool done = false;
  std::vector<Pair> pairs;    // From its steps that give any, in their order.
  std::size_t failed_at = 0;  // Which step was not as expected.
  std::string why;
};

Result<TransactionReply> read_transaction(const HttpReply& reply, std::string_view what,
                                          bool reads);
// The value of a GET; none: no such key.
Result<std::vector<Pair>> read_pairs(const HttpReply& reply, std::string_view what);
Result<std::vector<std::string>> read_keys(const HttpReply& reply, std::string_view what);
// It becomes part of keys and requests.
bool is_session_id(std::string_view text);
Result<std::string> read_session_id(const HttpReply& reply, std::string_view what);

// Consul's description of a session; it does not say since when there is one.
struct SessionInfo {
  std::string name;
  std::string node;  // The agent through which it was opened.
  std::optional<std::chrono::milliseconds> lock_delay{};
  std::optional<std::chrono::milliseconds> ttl{};  // None: it ends with its node.
};
// nullopt: there is none, or it may not be read.
std::optional<SessionInfo> read_session(const HttpReply& reply);

struct SessionTerms;  // session.h
std::string session_body(const SessionTerms& terms);

std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);

// At least what this part of an answer takes, and what is made of it when it is read.
std::size_t memory_to_read(std::string_view json);

}  // namespace holdfast::stores::consul
