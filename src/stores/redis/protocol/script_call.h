// One run of a script: what is sent, and what came back.
//
// Thread-safety: values.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/protocol/scripts.h"
#include "src/stores/redis/transport/batch_part.h"

namespace holdfast::stores::redis {

class ScriptCall {
 public:
  explicit ScriptCall(ScriptName name, ScriptClock clock = ScriptClock::kServer);

  // The keys come first.
  void add_key(std::string_view key);
  void add(std::string_view arg);
  void add(std::integral auto number) {
    char digits[24];
    add(std::string_view(digits, std::to_chars(digits, digits + sizeof digits, number).ptr));
  }
  std::size_t key_count() const { return keys_; }
  // Words added from now on are this request's own: with its key it may be joined with others.
  void begin_own(BatchPart::Kind kind);

  // EVALSHA: the server has the script, or answers NOSCRIPT.
  std::string by_hash() const;
  // Goes with the result of by_hash().
  BatchPart batch_part_of(const std::string& by_hash) const;
  // EVAL, which also leaves the script with the server.
  std::string whole() const;
  ScriptName name() const { return name_; }
  bool reads_only() const { return name_ == ScriptName::kInspect || name_ == ScriptName::kRights; }

 private:
  std::string encode(std::string_view command, std::string_view script) const;

  ScriptName name_;
  ScriptClock clock_;
  std::size_t keys_ = 0;
  std::size_t words_ = 0;
  std::size_t common_at_ = 0;  // Behind the keys.
  std::size_t own_at_ = 0;
  std::size_t own_from_ = 0;  // Words.
  BatchPart::Kind kind_ = BatchPart::Kind::kNone;
  std::string words_text_;  // Keys and arguments, as the protocol has them: one buffer for all.
};

// The reply, unless it is an error: then what it means.
Result<Reply> checked(Result<Reply> reply, std::string_view what, bool reads_only = false);

// A missing permission is kPermissionDenied, a missing feature of the server kUnsupported; also of
// an error.
Result<void> rights_answer(const Reply& reply, std::string_view what);

bool is_unknown_script(const Result<Reply>& reply);

}  // namespace holdfast::stores::redis
