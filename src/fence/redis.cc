#include "holdfast/fence/redis.h"

#include <algorithm>

#include "holdfast/fence/fence.h"

namespace holdfast::fence::redis {
namespace {

// The record is read and checked before it is compared: other text could be below every token.
// `%d` and the fixed places keep Lua's comparison, which follows the server's locale, to digits.
constexpr std::string_view kCheck = R"lua(
do
  local function is_token(text)
    return type(text) == 'string' and #text == 31 and text:sub(11, 11) == '.'
      and not text:sub(1, 10):find('%D') and not text:sub(12):find('%D')
  end
  local mine, mode = ARGV[1], ARGV[2]
  if not is_token(mine) or (mode ~= 'exclusive' and mode ~= 'shared') then
    return redis.error_reply('FENCEARG this is not a token and its mode')
  end
  local recorded = redis.pcall('GET', KEYS[1])
  if type(recorded) == 'table' and recorded.err then
    if recorded.err:find('WRONGTYPE', 1, true) then
      return redis.error_reply('FENCECORRUPT ' .. KEYS[1] .. ' is not a record')
    end
    return recorded
  end
  if recorded and not is_token(recorded) then
    return redis.error_reply('FENCECORRUPT ' .. KEYS[1] .. ' does not hold a token')
  end
  if recorded and (mine < recorded or (mode == 'shared' and mine == recorded)) then
    return redis.error_reply('FENCED ' .. mine .. ' is not the newest: ' .. recorded
      .. ' was shown here before')
  end
  if mode == 'exclusive' and mine ~= recorded then redis.call('SET', KEYS[1], mine) end
end
)lua";

// The part of a key that the cluster hashes: the text between its first { and the next }, unless it
// is empty.
std::string_view hashed_part(std::string_view key) {
  const auto open = key.find('{');
  if (open == key.npos) return key;
  const auto close = key.find('}', open + 1);
  if (close == key.npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

bool begins_with(std::string_view text, std::string_view word) {
  return text.substr(0, word.size()) == word &&
         (text.size() == word.size() || text[word.size()] == ' ');
}

}  // namespace

Result<std::string> record_key(std::string_view key) {
  if (key.empty()) return Error(Errc::kInvalidArgument, "the key is empty");
  const std::string_view tag = hashed_part(key);
  if (tag.find('}') != tag.npos) {
    return Error(
        Errc::kInvalidArgument,
        "the key has a \"}\" but no hash tag, so no other key can be named that shares its "
        "slot: give it a tag, as in {stock}");
  }
  std::string record = "holdfast-fence:{" + std::string(tag) + "}";
  if (tag.size() != key.size()) record += ":" + std::string(key);
  return record;
}

std::string_view check_script() { return kCheck; }

Result<std::vector<std::string>> guarded_eval(std::string_view body,
                                              const std::vector<std::string>& keys,
                                              const std::vector<std::string>& arguments,
                                              const Token& token, const Mode& mode) {
  if (keys.empty()) return Error(Errc::kInvalidArgument, "there is no key to guard");
  auto record = record_key(keys.front());
  if (!record) return record.error();
  for (const std::string& key : keys) {
    if (hashed_part(key) != hashed_part(keys.front())) {
      return Error(
          Errc::kInvalidArgument,
          "the keys are not of one slot: give them one hash tag, as in {stock}:a, {stock}:b");
    }
  }
  // The rule's own refusals that need no record: permits, and no token.
  if (auto sound = admit(Token{}, token, mode); !sound) return sound.error();
  std::vector<std::string> words = {"EVAL", std::string(kCheck) + std::string(body),
                                    std::to_string(keys.size() + 1), *record};
  words.insert(words.end(), keys.begin(), keys.end());
  words.push_back(token.to_string());
  words.push_back(mode.kind() == Mode::Kind::kShared ? "shared" : "exclusive");
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

Result<std::vector<std::string>> guarded_set(const std::string& key, const std::string& value,
                                             const Token& token, const Mode& mode) {
  return guarded_eval("return redis.call('SET', KEYS[2], ARGV[3])", {key}, {value}, token, mode);
}

Error refusal(std::string_view error_reply) {
  std::string_view text = error_reply;
  if (!text.empty() && text.front() == '-') text.remove_prefix(1);
  const std::string all(text);
  if (begins_with(text, "FENCED")) {
    return {Errc::kLost,
            "refused: " + all.substr(std::min(all.size(), std::string("FENCED ").size())) +
                ", so another holder has had the lock since. Stop"};
  }
  if (begins_with(text, "FENCECORRUPT")) return {Errc::kCorruptState, all};
  if (begins_with(text, "FENCEARG")) return {Errc::kInvalidArgument, all};
  return {Errc::kOutcomeUnknown, "Redis answered: " + all};
}

}  // namespace holdfast::fence::redis
