#include "src/port/owner_json.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "holdfast/detail/number.h"
#include "src/port/outcome.h"

namespace holdfast::port {
namespace {

using Json = nlohmann::ordered_json;
using machine::OwnerInfo;

constexpr std::size_t kMaxText = 2048;

// Whether JSON needs no escapes and no cut for this text. Nearly every owner has only such texts,
// and is read and written without the JSON library: that is on the way of every acquisition.
bool is_plain(std::string_view text) {
  if (text.size() > kMaxText) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

machine::Duration delay_of(std::int64_t ms) {
  constexpr std::chrono::milliseconds kLongestDelay = std::chrono::hours(24);
  return std::clamp(std::chrono::milliseconds(ms), std::chrono::milliseconds::zero(),
                    kLongestDelay);
}

std::int64_t delay_ms_of(const OwnerInfo& owner) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(owner.lock_delay).count();
}

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
    std::int64_t delay_ms = 0;
    number(R"(,"lock_delay_ms":)", delay_ms);
    owner.lock_delay = delay_of(delay_ms);
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
    const std::size_t end = rest_.find('"');
    if (end == rest_.npos || !is_plain(rest_.substr(0, end))) return false;
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

std::string write_plain(const OwnerInfo& owner) {
  std::string json;
  json.reserve(128 + owner.owner.size() + owner.host.size() + owner.program.size() +
               owner.reason.size() + owner.trace_id.size());
  json.append(R"({"owner":")").append(owner.owner);
  json.append(R"(","host":")").append(owner.host);
  json.append(R"(","pid":)").append(std::to_string(owner.pid));
  json.append(R"(,"program":")").append(owner.program);
  json.append(R"(","since_unix_ms":)").append(std::to_string(owner.since_unix_ms));
  if (!owner.reason.empty()) json.append(R"(,"reason":")").append(owner.reason).append("\"");
  if (!owner.trace_id.empty()) json.append(R"(,"trace_id":")").append(owner.trace_id).append("\"");
  if (const auto ms = delay_ms_of(owner); ms > 0) {
    json.append(R"(,"lock_delay_ms":)").append(std::to_string(ms));
  }
  json += '}';
  return json;
}

std::string shortened(const std::string& text) { return text.substr(0, kMaxText); }

std::string string_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  return shortened(found->get<std::string>());
}

std::int64_t number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return 0;
  // A larger number would turn negative.
  const bool fits = !found->is_number_unsigned() || found->get<std::uint64_t>() <= INT64_MAX;
  return fits ? found->get<std::int64_t>() : 0;
}

Json parsed(std::string_view json) {
  Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : Json::object();
}

std::string text_of(const Json& object) {
  return object.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
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
  owner->lock_delay = delay_of(number_in(object, "lock_delay_ms"));
  return owner;
}

Json object_of(const machine::OwnerPtr& owner) {
  if (!owner) return Json::object();
  Json object{{"owner", shortened(owner->owner)},
              {"host", shortened(owner->host)},
              {"pid", owner->pid},
              {"program", shortened(owner->program)},
              {"since_unix_ms", owner->since_unix_ms}};
  if (!owner->reason.empty()) object["reason"] = shortened(owner->reason);
  if (!owner->trace_id.empty()) object["trace_id"] = shortened(owner->trace_id);
  if (const auto ms = delay_ms_of(*owner); ms > 0) object["lock_delay_ms"] = ms;
  return object;
}

}  // namespace

machine::OwnerPtr read_owner(std::string_view json) {
  if (auto plain = PlainOwner(json).read()) {
    return std::make_shared<const OwnerInfo>(*std::move(plain));
  }
  return owner_of(parsed(json));
}

std::string write_owner(const machine::OwnerPtr& owner) {
  const bool plain = owner && is_plain(owner->owner) && is_plain(owner->host) &&
                     is_plain(owner->program) && is_plain(owner->reason) &&
                     is_plain(owner->trace_id);
  return plain ? write_plain(*owner) : text_of(object_of(owner));
}

BreakTrace read_trace(std::string_view json) {
  const Json object = parsed(json);
  BreakTrace trace;
  const std::string digits = string_in(object, "token");
  trace.token.counter = detail::parse_number<std::uint64_t>(digits).value_or(0);
  const auto by = object.find("by");
  trace.by = owner_of(by != object.end() && by->is_object() ? *by : Json::object());
  return trace;
}

std::string write_trace(const BreakTrace& trace) {
  // The token is a string, because readers that keep numbers as doubles would merge neighbouring
  // tokens.
  return text_of(Json{{"token", std::to_string(trace.token.counter)}, {"by", object_of(trace.by)}});
}

BreakInfo to_public(const BreakTrace& trace) {
  BreakInfo info;
  info.token.counter = trace.token.counter;
  info.by = to_public(trace.by);
  return info;
}

}  // namespace holdfast::port
