#include "src/stores/consul/transport/messages.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/port/store_url.h"
#include "src/stores/consul/store_session.h"
#include "src/stores/consul/transport/errors.h"

namespace holdfast::stores::consul {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoDigit = 0xff;
constexpr std::size_t kMostOfAName = 200;

// The body takes twice its size while it grows, and its texts are copied once more when read.
constexpr std::size_t kPerByte = 3;
// An empty array, and its slot in another one.
constexpr std::size_t kPerValue = 96;

Error senseless(std::string_view what) {
  return {Errc::kCorruptState,
          std::string(what) +
              ": Consul's answer is invalid; see that the URL names the HTTP port of an agent"};
}

std::optional<Json> parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::optional<Pair> pair_of(const Json& object) {
  if (!object.is_object()) return std::nullopt;
  Pair pair{text_in(object, "Key"),           text_in(object, "Value"),
            text_in(object, "Session"),       number_in(object, "Flags"),
            number_in(object, "CreateIndex"), number_in(object, "ModifyIndex")};
  if (pair.key.empty() || pair.modified == 0) return std::nullopt;
  return pair;
}

std::string field(const char* name, std::string_view text) {
  return std::string(",\"") + name + "\":\"" + std::string(text) + "\"";
}

std::string field(const char* name, std::uint64_t number) {
  return std::string(",\"") + name + "\":" + std::to_string(number);
}

}  // namespace

// Every value except the first follows one of these characters. Characters inside texts count, too,
// so this is an upper bound.
std::size_t memory_to_read(std::string_view json) {
  const auto values = std::count_if(json.begin(), json.end(), [](char each) {
    return each == ',' || each == '[' || each == '{' || each == ':';
  });
  return kPerByte * json.size() + kPerValue * static_cast<std::size_t>(values);
}

std::string Pair::value() const { return from_base64(encoded).value_or(std::string()); }

void Transaction::add(const char* verb, std::string_view key, const std::string& rest) {
  steps_ += size_++ == 0 ? "" : ",";
  steps_.append(R"({"KV":{"Verb":")").append(verb).append(R"(","Key":")").append(key);
  steps_.append("\"").append(rest).append("}}");
}

Transaction& Transaction::check_index(std::string_view key, std::uint64_t index) {
  return add("check-index", key, field("Index", index)), *this;
}

Transaction& Transaction::check_not_exists(std::string_view key) {
  return add("check-not-exists", key), *this;
}

Transaction& Transaction::check_session(std::string_view key, std::string_view session) {
  return add("check-session", key, field("Session", session)), *this;
}

Transaction& Transaction::lock(std::string_view key, std::string_view value,
                               std::string_view session, std::uint64_t flags) {
  return add("lock", key,
             field("Value", to_base64(value)) + field("Flags", flags) + field("Session", session)),
         *this;
}

Transaction& Transaction::unlock(std::string_view key, std::string_view value,
                                 std::string_view session, std::uint64_t flags) {
  return add("unlock", key,
             field("Value", to_base64(value)) + field("Flags", flags) + field("Session", session)),
         *this;
}

Transaction& Transaction::set(std::string_view key, std::string_view value) {
  return add("set", key, field("Value", to_base64(value))), *this;
}

Transaction& Transaction::get(std::string_view key) { return add("get", key), *this; }

Transaction& Transaction::get_tree(std::string_view prefix) {
  return add("get-tree", prefix), *this;
}

Transaction& Transaction::erase(std::string_view key) { return add("delete", key), *this; }

Transaction& Transaction::erase_if(std::string_view key, std::uint64_t index) {
  return add("delete-cas", key, field("Index", index)), *this;
}

Result<TransactionReply> read_transaction(const HttpReply& reply, std::string_view what,
                                          bool reads) {
  if (reply.status != 200 && reply.status != 409) return to_error(reply, what, reads);
  const auto json = parsed(reply.body);
  if (!json || !json->is_object()) return senseless(what);
  TransactionReply answer;
  answer.done = reply.status == 200;
  const auto errors = json->find("Errors");
  if (errors != json->end() && errors->is_array() && !errors->empty()) {
    answer.done = false;
    const Json& first = (*errors)[0];
    if (!first.is_object()) return senseless(what);
    answer.failed_at = number_in(first, "OpIndex");
    answer.why = text_in(first, "What");
    if (is_refusal(answer.why)) return to_error({403, 0, answer.why, reply.doubtful}, what, reads);
    return answer;
  }
  if (!answer.done) return senseless(what);
  const auto results = json->find("Results");
  if (results == json->end() || !results->is_array()) return answer;
  for (const Json& result : *results) {
    const auto step = result.is_object() ? result.find("KV") : result.end();
    if (!result.is_object() || step == result.end()) continue;
    auto pair = pair_of(*step);
    if (!pair) return senseless(what);
    answer.pairs.push_back(*std::move(pair));
  }
  return answer;
}

Result<std::vector<Pair>> read_pairs(const HttpReply& reply, std::string_view what) {
  std::vector<Pair> pairs;
  if (reply.status == 404) return pairs;
  if (reply.status != 200) return to_error(reply, what, /*reads=*/true);
  const auto json = parsed(reply.body);
  if (!json || !json->is_array()) return senseless(what);
  for (const Json& each : *json) {
    auto pair = pair_of(each);
    if (!pair) return senseless(what);
    pairs.push_back(*std::move(pair));
  }
  return pairs;
}

Result<std::vector<std::string>> read_keys(const HttpReply& reply, std::string_view what) {
  std::vector<std::string> keys;
  if (reply.status == 404) return keys;
  if (reply.status != 200) return to_error(reply, what, /*reads=*/true);
  const auto json = parsed(reply.body);
  if (!json || !json->is_array()) return senseless(what);
  for (const Json& each : *json) {
    if (!each.is_string()) return senseless(what);
    keys.push_back(each.get<std::string>());
  }
  return keys;
}

bool is_session_id(std::string_view text) {
  return text.size() == 36 &&
         text.find_first_not_of("0123456789abcdefABCDEF-") == std::string_view::npos;
}

Result<std::string> read_session_id(const HttpReply& reply, std::string_view what) {
  if (reply.status != 200) return to_error(reply, what, /*reads=*/true);
  const auto json = parsed(reply.body);
  std::string id = json && json->is_object() ? text_in(*json, "ID") : "";
  if (!is_session_id(id)) return senseless(what);
  return id;
}

std::optional<SessionInfo> read_session(const HttpReply& reply) {
  const auto json = reply.status == 200 ? parsed(reply.body) : std::nullopt;
  if (!json || !json->is_array() || json->empty() || !(*json)[0].is_object()) return std::nullopt;
  const Json& told = (*json)[0];
  SessionInfo info;
  info.name = text_in(told, "Name").substr(0, kMostOfAName);
  info.node = text_in(told, "Node").substr(0, kMostOfAName);
  const std::uint64_t nanoseconds = number_in(told, "LockDelay");
  if (nanoseconds <= 3'600'000'000'000) {
    info.lock_delay = std::chrono::milliseconds(nanoseconds / 1'000'000);
  }
  if (const auto ttl = port::parse_duration(text_in(told, "TTL"))) info.ttl = *ttl;
  return info;
}

std::string session_body(const SessionTerms& terms) {
  // Without health checks, so the gossip's view of the agent's node cannot end the session.
  const Json body{{"Name", terms.name},
                  {"TTL", std::to_string(terms.ttl.count()) + "ms"},
                  {"LockDelay", std::to_string(terms.lock_delay.count()) + "ms"},
                  {"Behavior", "delete"},
                  {"NodeChecks", Json::array()},
                  {"ServiceChecks", Json::array()}};
  return body.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < have ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= have ? kAlphabet[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  static const auto kValues = [] {
    std::array<std::uint8_t, 256> values{};
    values.fill(kNoDigit);
    for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
      values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
    }
    return values;
  }();
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) text.remove_suffix(1), ++padding;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int have = 0;
  for (const char each : text) {
    const std::uint32_t value = kValues[static_cast<unsigned char>(each)];
    if (value == kNoDigit) return std::nullopt;
    bits = bits << 6 | value;
    have += 6;
    if (have >= 8) {
      have -= 8;
      bytes += static_cast<char>(bits >> have & 255U);
    }
  }
  return bytes;
}

}  // namespace holdfast::stores::consul
