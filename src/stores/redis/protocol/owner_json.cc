#include "src/stores/redis/protocol/owner_json.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>

#include <nlohmann/json.hpp>

#include "holdfast/detail/number.h"
#include "src/port/outcome.h"

namespace holdfast::stores::redis {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxText = 2048;

std::string shortened(const std::string& text) { return text.substr(0, kMaxText); }

Json object_of(const machine::OwnerPtr& owner) {
  if (!owner) return Json::object();
  Json object{{"owner", shortened(owner->owner)},
              {"host", shortened(owner->host)},
              {"pid", owner->pid},
              {"program", shortened(owner->program)},
              {"since_unix_ms", owner->since_unix_ms}};
  if (!owner->reason.empty()) object["reason"] = shortened(owner->reason);
  if (!owner->trace_id.empty()) object["trace_id"] = shortened(owner->trace_id);
  return object;
}

std::string text_of(const Json& object) {
  return object.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// Whether JSON needs no escapes and no cut for this text. Nearly every owner passes, and is written
// without a JSON library.
bool is_plain(const std::string& text) {
  if (text.size() > kMaxText) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

Json parsed(std::string_view json) {
  Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : Json::object();
}

std::string string_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return 0;
  // A larger number would turn negative.
  const bool fits = !found->is_number_unsigned() || found->get<std::uint64_t>() <= INT64_MAX;
  return fits ? found->get<std::int64_t>() : 0;
}

machine::OwnerPtr owner_of(const Json& object) {
  auto owner = std::make_shared<machine::OwnerInfo>();
  owner->owner = string_in(object, "owner");
  owner->host = string_in(object, "host");
  owner->pid = number_in(object, "pid");
  owner->program = string_in(object, "program");
  owner->reason = string_in(object, "reason");
  owner->trace_id = string_in(object, "trace_id");
  owner->since_unix_ms = number_in(object, "since_unix_ms");
  return owner;
}

}  // namespace

std::string to_json(const machine::OwnerPtr& owner) {
  const bool plain = owner && is_plain(owner->owner) && is_plain(owner->host) &&
                     is_plain(owner->program) && is_plain(owner->reason) &&
                     is_plain(owner->trace_id);
  if (!plain) return text_of(object_of(owner));
  std::string json;
  json.reserve(128 + owner->owner.size() + owner->host.size() + owner->program.size() +
               owner->reason.size() + owner->trace_id.size());
  json.append(R"({"owner":")").append(owner->owner);
  json.append(R"(","host":")").append(owner->host);
  json.append(R"(","pid":)").append(std::to_string(owner->pid));
  json.append(R"(,"program":")").append(owner->program);
  json.append(R"(","since_unix_ms":)").append(std::to_string(owner->since_unix_ms));
  if (!owner->reason.empty()) json.append(R"(,"reason":")").append(owner->reason).append("\"");
  if (!owner->trace_id.empty()) {
    json.append(R"(,"trace_id":")").append(owner->trace_id).append("\"");
  }
  json += '}';
  return json;
}

machine::OwnerPtr owner_from_json(std::string_view json) { return owner_of(parsed(json)); }

std::string trace_to_json(machine::Token token, const machine::OwnerPtr& by) {
  // The token is a string, because readers that keep numbers as doubles would merge neighbouring
  // tokens.
  return text_of(Json{{"token", std::to_string(token.counter)}, {"by", object_of(by)}});
}

BreakInfo trace_from_json(std::string_view json) {
  const Json object = parsed(json);
  BreakInfo trace;
  const std::string digits = string_in(object, "token");
  trace.token.counter = detail::parse_number<std::uint64_t>(digits).value_or(0);
  const auto by = object.find("by");
  trace.by = port::to_public(owner_of(by != object.end() ? *by : Json::object()));
  return trace;
}

}  // namespace holdfast::stores::redis
