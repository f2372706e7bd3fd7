#include "src/stores/failover/record.h"

#include <charconv>
#include <map>

namespace holdfast::stores::failover {
namespace {

constexpr std::string_view kForm = "holdfast-failover 1";
constexpr std::string_view kName = "holdfast-failover ";

Error corrupt(const std::string& what) {
  return {Errc::kCorruptState, "the record of the fail-over chain: " + what};
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string identity(const ChainRecord& record) {
  return std::string(kForm) + "\nchain " + record.chain + "\nauthority " + record.authority + "\n";
}

}  // namespace

std::string to_text(const ChainRecord& record) {
  const auto line = [](const char* name, std::uint32_t value) {
    return std::string(name) + " " + std::to_string(value) + "\n";
  };
  return identity(record) + line("epoch", record.epoch) + line("last", record.last) +
         line("active", record.active) + line("draining", record.draining ? 1 : 0) +
         line("authority_ms", record.authority_ms) + line("longest_ms", record.longest_ms);
}

Result<ChainRecord> read_record(std::string_view text) {
  if (text.size() > 4096) return corrupt("it is too long");
  const std::string_view form = text.substr(0, text.find('\n'));
  if (form != kForm) {
    if (!form.starts_with(kName)) return corrupt("it is something else");
    return Error(Errc::kVersionMismatch, "the record of the fail-over chain has the form '" +
                                             std::string(form) + "' of a later Holdfast");
  }
  std::map<std::string, std::string, std::less<>> lines;
  text.remove_prefix(std::min(text.size(), form.size() + 1));
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const auto space = line.find(' ');
    if (space == std::string_view::npos) return corrupt("a line has no value");
    lines[std::string(line.substr(0, space))] = std::string(line.substr(space + 1));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  ChainRecord record;
  record.chain = lines["chain"];
  record.authority = lines["authority"];
  std::uint32_t draining = 0;
  const std::pair<const char*, std::uint32_t*> numbers[] = {
      {"epoch", &record.epoch},        {"last", &record.last},
      {"active", &record.active},      {"draining", &draining},
      {"authority_ms", &record.authority_ms}, {"longest_ms", &record.longest_ms}};
  for (const auto& [name, value] : numbers) {
    const auto parsed = number(lines[name]);
    if (!parsed) return corrupt(std::string(name) + " is not a number");
    *value = *parsed;
  }
  record.draining = draining != 0;
  if (record.chain.empty() || record.authority.empty() || record.epoch == 0 ||
      record.authority_ms == 0) {
    return corrupt("a part of it is missing");
  }
  return record;
}

std::string stamp_of(const ChainRecord& record) {
  return identity(record) + "epoch " + std::to_string(record.epoch) + "\n";
}

bool is_ours(std::string_view stamp, const ChainRecord& record) {
  return stamp.starts_with(identity(record));
}

}  // namespace holdfast::stores::failover
