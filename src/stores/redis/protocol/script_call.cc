#include "src/stores/redis/protocol/script_call.h"

#include <algorithm>
#include <iterator>

#include "src/base/random.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/protocol/keys.h"

namespace holdfast::stores::redis {
namespace {

// The lock service's name of a call.
std::string_view command_word(ScriptName name) {
  switch (name) {
    case ScriptName::kAcquire: return "acquire";
    case ScriptName::kEnd: return "end";
    case ScriptName::kRenew: return "renew";
    case ScriptName::kDowngrade: return "downgrade";
    case ScriptName::kBreak: return "break";
    case ScriptName::kResize: return "resize";
    case ScriptName::kSetValue: return "set_value";
    case ScriptName::kInspect: return "inspect";
    case ScriptName::kRights: return "rights";
    case ScriptName::kAcquireAll: return "acquire_all";
  }
  return {};
}

}  // namespace

ScriptCall::ScriptCall(ScriptName name, ScriptClock clock, ScriptHost place)
    : name_(name), clock_(clock), place_(place) {
  words_text_.reserve(480);  // Enough for an uncontended request.
}

void ScriptCall::add_key(std::string_view key) {
  ++keys_;
  add(key);
  common_at_ = words_text_.size();
}

void ScriptCall::add_lock(std::string_view name) {
  ++keys_;
  ++words_;
  append_record_key(words_text_, name);
  common_at_ = words_text_.size();
}

void ScriptCall::add_id(const port::AcquisitionId& id) {
  const base::HexDigits digits = base::hex_digits(id.high, id.low);
  add(std::string_view(digits.data(), digits.size()));
}

void ScriptCall::add_padded(std::uint64_t number) {
  char digits[kPaddedSize + 24];
  std::fill_n(digits, kPaddedSize, '0');
  const char* const end = std::to_chars(digits + kPaddedSize, std::end(digits), number).ptr;
  // Longer numbers have no zero before them.
  const char* const begin = std::min<const char*>(digits + kPaddedSize, end - kPaddedSize);
  add(std::string_view(begin, static_cast<std::size_t>(end - begin)));
}

void ScriptCall::begin_own(BatchPart::Kind kind) {
  kind_ = kind;
  own_at_ = words_text_.size();
  own_from_ = words_;
}

void ScriptCall::end_in_slot(std::uint16_t slot, std::string_view tag) {
  slot_ = slot;
  tail_at_ = words_text_.size();
  add(tag);
}

void ScriptCall::add(std::string_view arg) {
  ++words_;
  append_word(words_text_, arg);
}

std::string ScriptCall::encode(std::string_view command, std::string_view script) const {
  std::string wire;
  wire.reserve(64 + script.size() + words_text_.size());
  append_array_header(wire, 3 + words_);
  append_word(wire, command);
  append_word(wire, script);
  append_word(wire, std::to_string(keys_));
  wire += words_text_;
  return wire;
}

std::string ScriptCall::by_hash() const {
  if (place_ == ScriptHost::kService) return encode("HF1", command_word(name_));
  return encode("EVALSHA", script(name_, clock_, place_).sha1);
}

BatchPart ScriptCall::batch_part_of(const std::string& by_hash) const {
  if (kind_ == BatchPart::Kind::kNone) return {};
  constexpr std::size_t kOneKey = 7;  // "$1\r\n1\r\n"
  const std::size_t key = by_hash.size() - words_text_.size();
  const auto at = [](std::size_t place) { return static_cast<std::uint16_t>(place); };
  const std::size_t tail = tail_at_ == 0 ? by_hash.size() : key + tail_at_;
  return {kind_,
          static_cast<std::uint8_t>(words_ - own_from_ - (tail_at_ == 0 ? 0 : 1)),
          at(key - kOneKey),
          at(key),
          at(key + common_at_),
          at(key + own_at_),
          static_cast<std::uint32_t>(tail)};
}

std::string ScriptCall::whole() const {
  if (place_ == ScriptHost::kService) return by_hash();
  return encode("EVAL", script(name_, clock_, place_).text);
}

Result<Reply> checked(Result<Reply> reply, std::string_view what, bool reads_only) {
  if (!reply || !reply->is_error()) return reply;
  if (auto known = script_error(reply->text, what)) return *std::move(known);
  return to_error(*reply, what, reads_only);
}

Result<void> rights_answer(const Reply& reply, std::string_view what) {
  if (reply.is_error()) return to_error(reply, what, /*reads_only=*/true);
  if (reply.items.empty()) return {};
  std::string denied;
  std::string absent;
  for (const auto& item : reply.items) {
    const bool known = !item.text.starts_with('?');
    std::string& list = known ? denied : absent;
    list += (list.empty() ? "" : ", ") + item.text.substr(known ? 0 : 1);
  }
  if (!absent.empty()) {
    return Error(Errc::kUnsupported,
                 std::string(what) + ": the server lacks or has renamed " + absent +
                     ", which locks need: give it the command back by its name");
  }
  return Error(Errc::kPermissionDenied,
               std::string(what) + ": the ACL of this user does not allow " + denied +
                   " on a lock's keys: docs/stores/redis.md has the line that does");
}

bool is_unknown_script(const Result<Reply>& reply) {
  return reply && reply->error_word() == "NOSCRIPT";
}

}  // namespace holdfast::stores::redis
