#include "src/server/front/owner_text.h"

#include <cstdint>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "holdfast/detail/number.h"

namespace holdfast::server {
namespace {

using Json = nlohmann::ordered_json;
using machine::OwnerInfo;

constexpr std::size_t kMaxText = 2048;

// Reads the form of nearly every owner, which has no escapes, without a JSON library: this is on
// the way of every acquisition.
class PlainOwner {
 public:
  explicit PlainOwner(std::string_view json) : rest_(json) {}

  std::optional<OwnerInfo> read() {
    OwnerInfo owner;
    const bool good = text(R"({"owner":")", owner.owner) && text(R"(,"host":")", owner.host) &&
                      number(R"(,"pid":)", owner.pid) && text(R"(,"program":")", owner.program) &&
                      number(R"(,"since_unix_ms":)", owner.since_unix_ms);
    if (!good) return std::nullopt;
    text(R"(,"reason":")", owner.reason);
    text(R"(,"trace_id":")", owner.trace_id);
    if (rest_ != "}") return std::nullopt;
    return owner;
  }

 private:
  bool skip(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool text(std::string_view before, std::string& into) {
    if (!skip(before)) return false;
    const std::size_t end = rest_.find_first_of("\"\\");
    if (end == rest_.npos || rest_[end] == '\\' || end > kMaxText) return false;
    into = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool number(std::string_view before, std::int64_t& into) {
    if (!skip(before)) return false;
    const std::size_t end = rest_.find_first_of(",}");
    const auto value = detail::parse_number<std::int64_t>(rest_.substr(0, end));
    if (end == rest_.npos || !value) return false;
    into = *value;
    rest_.remove_prefix(end);
    return true;
  }

  std::string_view rest_;
};

std::string string_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  return found->get<std::string>().substr(0, kMaxText);
}

std::int64_t number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  const bool fits = found != object.end() && found->is_number_integer() &&
                    (!found->is_number_unsigned() || found->get<std::uint64_t>() <= INT64_MAX);
  return fits ? found->get<std::int64_t>() : 0;
}

Json parsed(std::string_view json) {
  Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : Json::object();
}

machine::OwnerPtr owner_of(const Json& object) {
  auto owner = std::make_shared<OwnerInfo>();
  owner->owner = string_in(object, "owner");
  owner->host = string_in(object, "host");
  owner->pid = number_in(object, "pid");
  owner->program = string_in(object, "program");
  owner->reason = string_in(object, "reason");
  owner->trace_id = string_in(object, "trace_id");
  owner->since_unix_ms = number_in(object, "since_unix_ms");
  return owner;
}

Json object_of(const machine::OwnerPtr& owner) {
  if (!owner) return Json::object();
  Json object{{"owner", owner->owner},
              {"host", owner->host},
              {"pid", owner->pid},
              {"program", owner->program},
              {"since_unix_ms", owner->since_unix_ms}};
  if (!owner->reason.empty()) object["reason"] = owner->reason;
  if (!owner->trace_id.empty()) object["trace_id"] = owner->trace_id;
  return object;
}

std::string text_of(const Json& object) {
  return object.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

machine::OwnerPtr read_owner(std::string_view json) {
  if (auto plain = PlainOwner(json).read()) {
    return std::make_shared<const OwnerInfo>(*std::move(plain));
  }
  return owner_of(parsed(json));
}

std::string write_owner(const machine::OwnerPtr& owner) { return text_of(object_of(owner)); }

machine::OwnerPtr read_breaker(std::string_view json) {
  const Json object = parsed(json);
  const auto by = object.find("by");
  return owner_of(by != object.end() && by->is_object() ? *by : Json::object());
}

std::string write_trace(const BreakTrace& trace) {
  return text_of(Json{{"token", std::to_string(trace.token.counter)}, {"by", object_of(trace.by)}});
}

}  // namespace holdfast::server
