// One run of a script: its request, and the check of its reply.
//
// Thread-safety: values.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/protocol/scripts.h"
#include "src/stores/redis/transport/batch_part.h"

namespace holdfast::stores::redis {

class ScriptCall {
 public:
  explicit ScriptCall(ScriptName name, ScriptClock clock = ScriptClock::kServer,
                      ScriptHost place = ScriptHost::kServer);

  // Add the keys before other words.
  void add_key(std::string_view key);
  void add_lock(std::string_view name);  // The key of its record.
  void add(std::string_view arg);
  void add(std::integral auto number) {
    char digits[24];
    add(std::string_view(digits, std::to_chars(digits, digits + sizeof digits, number).ptr));
  }
  void add_id(const port::AcquisitionId& id);  // As id_text().
  void add_padded(std::uint64_t number);       // As padded().
  std::size_t key_count() const { return keys_; }
  // Marks where this request's own words begin. With its key they can join a batch.
  void begin_own(BatchPart::Kind kind);

  // In a cluster: the slot of the keys, and its tag.
  void end_in_slot(std::uint16_t slot, std::string_view tag);
  std::uint16_t slot() const { return slot_; }

  // EVALSHA: the server runs the script if it has it, and answers NOSCRIPT otherwise. The lock
  // service has it always.
  std::string by_hash() const;
  // Belongs to the result of by_hash().
  BatchPart batch_part_of(const std::string& by_hash) const;
  // EVAL, which also stores the script at the server.
  std::string whole() const;
  ScriptName name() const { return name_; }
  bool reads_only() const { return name_ == ScriptName::kInspect || name_ == ScriptName::kRights; }

 private:
  std::string encode(std::string_view command, std::string_view script) const;

  ScriptName name_;
  ScriptClock clock_;
  ScriptHost place_;
  std::uint16_t slot_ = 0;
  std::size_t keys_ = 0;
  std::size_t words_ = 0;
  std::size_t common_at_ = 0;  // Right after the keys.
  std::size_t own_at_ = 0;
  std::size_t own_from_ = 0;  // Words.
  std::size_t tail_at_ = 0;   // 0: no tag.
  BatchPart::Kind kind_ = BatchPart::Kind::kNone;
  std::string words_text_;  // Keys and arguments in the protocol's form, in one buffer.
};

// Returns the reply, or the meaning of an error reply.
Result<Reply> checked(Result<Reply> reply, std::string_view what, bool reads_only = false);

// Also takes an error. A missing permission is kPermissionDenied, a missing command of the server
// kUnsupported.
Result<void> rights_answer(const Reply& reply, std::string_view what);

bool is_unknown_script(const Result<Reply>& reply);

}  // namespace holdfast::stores::redis
