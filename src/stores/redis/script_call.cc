#include "src/stores/redis/script_call.h"

#include "src/stores/redis/answers.h"
#include "src/stores/redis/errors.h"

namespace holdfast::stores::redis {
namespace {

std::string encode(const ScriptCall& call, std::string_view command, std::string_view script) {
  const std::string key_count = std::to_string(call.keys.size());
  std::vector<std::string_view> words;
  words.reserve(3 + call.keys.size() + call.args.size());
  words.insert(words.end(), {command, script, key_count});
  words.insert(words.end(), call.keys.begin(), call.keys.end());
  words.insert(words.end(), call.args.begin(), call.args.end());
  std::string wire;
  append_command(wire, words);
  return wire;
}

}  // namespace

std::string ScriptCall::by_hash() const {
  return encode(*this, "EVALSHA", script(name, clock).sha1);
}

std::string ScriptCall::whole() const { return encode(*this, "EVAL", script(name, clock).text); }

Result<Reply> checked(Result<Reply> reply, std::string_view what) {
  if (!reply || !reply->is_error()) return reply;
  if (auto known = script_error(reply->text, what)) return *std::move(known);
  return to_error(*reply, what);
}

bool is_unknown_script(const Result<Reply>& reply) {
  return reply && reply->error_word() == "NOSCRIPT";
}

}  // namespace holdfast::stores::redis
