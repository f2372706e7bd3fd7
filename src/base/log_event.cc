#include "holdfast/log_event.h"

#include <array>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/utc.h"
#include "holdfast/detail/utf8.h"

namespace holdfast {
namespace {

const char* severity_text(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kInfo: return "info";
    case LogSeverity::kWarning: return "warning";
    case LogSeverity::kError: return "error";
  }
  return "error";
}

// Between quotes, as JSON has it; logfmt is read by the same rules.
std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = detail::front_code_point(text).length;
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (first == '"' || first == '\\') {
      out += '\\';
      out += text.front();
    } else if (first < 0x20 || first == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", first);
      out += escape.data();
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

bool is_plain(std::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '=') return false;
  }
  return true;
}

using Fields = std::vector<std::pair<const char*, std::string>>;

Fields fields_of(const LogEvent& event) {
  Fields fields{{"time", detail::utc_text(event.time)},
                {"severity", severity_text(event.severity)},
                {"event", event.event}};
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) fields.emplace_back(name, std::move(value));
  };
  add("lock", event.lock);
  if (event.token != Token{}) add("token", event.token.to_string());
  add("trace_id", event.trace_id);
  if (event.error) add("error", std::string(errc_name(*event.error)));
  add("store", event.store);
  add("text", event.text);
  return fields;
}

}  // namespace

std::string json_line(const LogEvent& event) {
  std::string out = "{";
  for (const auto& [name, value] : fields_of(event)) {
    if (out.size() > 1) out += ',';
    out.append("\"").append(name).append("\":").append(json_text(value));
  }
  return out + "}";
}

std::string logfmt_line(const LogEvent& event) {
  std::string out;
  for (const auto& [name, value] : fields_of(event)) {
    if (!out.empty()) out += ' ';
    out.append(name).append("=").append(is_plain(value) ? value : json_text(value));
  }
  return out;
}

}  // namespace holdfast
