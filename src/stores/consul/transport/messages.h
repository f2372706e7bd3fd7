// Builds requests to Consul, and parses its answers.
//
// Keys and sessions go into requests unescaped, because they consist of characters that JSON allows
// (keys.h, url.h). Thread-safety: values and pure functions. Errors: kCorruptState for a malformed
// answer, otherwise errors.h's error for a refusal. No foreign data aborts the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/stores/consul/transport/http.h"

namespace holdfast::stores::consul {

// The steps of an atomic transaction, at most 64.
class Transaction {
 public:
  Transaction& check_index(std::string_view key, std::uint64_t index);
  Transaction& check_not_exists(std::string_view key);
  Transaction& check_session(std::string_view key, std::string_view session);
  // Acquires a key that is free, or belongs to the session already.
  Transaction& lock(std::string_view key, std::string_view value, std::string_view session,
                    std::uint64_t flags = 0);
  Transaction& unlock(std::string_view key, std::string_view value, std::string_view session,
                      std::uint64_t flags = 0);
  Transaction& set(std::string_view key, std::string_view value);
  Transaction& get(std::string_view key);  // Fails if the key is missing.
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
  std::string encoded;  // The encoded value: in a long queue hardly any is read.
  std::string session;  // Empty for nobody's key.
  std::uint64_t flags = 0;
  std::uint64_t created = 0;
  std::uint64_t modified = 0;

  std::string value() const;
};

struct TransactionReply {
  bool done = false;
  std::vector<Pair> pairs;    // From the reading steps, in their order.
  std::size_t failed_at = 0;  // The step whose condition failed.
  std::string why;
};

Result<TransactionReply> read_transaction(const HttpReply& reply, std::string_view what,
                                          bool reads);
// The pairs in a GET's answer; empty if the key does not exist.
Result<std::vector<Pair>> read_pairs(const HttpReply& reply, std::string_view what);
Result<std::vector<std::string>> read_keys(const HttpReply& reply, std::string_view what);
// Checked, because it becomes a part of keys and requests.
bool is_session_id(std::string_view text);
Result<std::string> read_session_id(const HttpReply& reply, std::string_view what);

// Consul's description of a session, which has no creation time.
struct SessionInfo {
  std::string name;
  std::string node;  // The agent that opened it.
  std::optional<std::chrono::milliseconds> lock_delay{};
  std::optional<std::chrono::milliseconds> ttl{};  // Not set if it ends with its node.
};
// nullopt if there is none, or the token may not read it.
std::optional<SessionInfo> read_session(const HttpReply& reply);

struct SessionTerms;  // store_session.h
std::string session_body(const SessionTerms& terms);

std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);

// An upper bound of the memory for this part of an answer, and for its parsed form.
std::size_t memory_to_read(std::string_view json);

}  // namespace holdfast::stores::consul
