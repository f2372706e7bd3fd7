#include "src/ids/record_text.h"

#include <algorithm>

#include "src/base/fnv.h"
#include "src/base/random.h"

namespace holdfast::ids {
namespace {

constexpr std::string_view kRecordHead = "holdfast-ids ";
constexpr std::string_view kFormat = "1";
constexpr std::string_view kKind = "kind";
constexpr std::string_view kChecksum = "checksum=";

std::string checksum_line(std::string_view above) {
  return std::string(kChecksum) + base::to_hex(0, base::fnv1a(above)) + "\n";
}

std::string one_line(std::string value) {
  std::replace_if(
      value.begin(), value.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return value;
}

Error damaged(const std::string& where) {
  return {Errc::kCorruptState,
          where +
              ": the record is damaged, or is not one of ids. Nothing is guessed from it: find "
              "out what changed it"};
}

// The text up to the line's end, which leaves `text`. nullopt: no line is left.
std::optional<std::string_view> take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

}  // namespace

RecordText& RecordText::add(std::string key, std::string value) {
  values_.emplace_back(std::move(key), one_line(std::move(value)));
  return *this;
}

std::string RecordText::text() const {
  std::string all = std::string(kRecordHead) + std::string(kFormat) + "\n";
  all.append(kKind).append("=").append(kind_).append("\n");
  for (const auto& [key, value] : values_) all.append(key).append("=").append(value).append("\n");
  return all + checksum_line(all);
}

Result<RecordText> RecordText::parse(std::string_view text, const std::string& where) {
  const std::size_t sum = text.rfind(kChecksum);
  if (sum == text.npos || sum == 0 || text[sum - 1] != '\n' ||
      text.substr(sum) != checksum_line(text.substr(0, sum))) {
    return damaged(where);
  }
  std::string_view left = text.substr(0, sum);
  const auto head = take_line(left);
  if (!head || !head->starts_with(kRecordHead)) return damaged(where);
  if (head->substr(kRecordHead.size()) != kFormat) {
    return Error(Errc::kVersionMismatch,
                 where + ": a later version wrote the record: upgrade this program");
  }
  RecordText record{std::string()};
  bool has_kind = false;
  while (const auto line = take_line(left)) {
    const std::size_t equals = line->find('=');
    if (equals == line->npos || equals == 0) return damaged(where);
    const std::string key(line->substr(0, equals));
    std::string value(line->substr(equals + 1));
    if (!has_kind) {
      if (key != kKind) return damaged(where);
      record.kind_ = std::move(value);
      has_kind = true;
    } else if (record.value(key)) {
      return damaged(where);
    } else {
      record.values_.emplace_back(key, std::move(value));
    }
  }
  if (!has_kind || !left.empty()) return damaged(where);
  return record;
}

Result<RecordText> RecordText::parse(std::string_view text, std::string_view kind,
                                     const std::string& where) {
  auto record = parse(text, where);
  if (record && record->kind() != kind) {
    return Error(Errc::kInvalidArgument, where + " is of the kind '" + record->kind() +
                                             "', and is used here as one of the kind '" +
                                             std::string(kind) + "': take another name");
  }
  return record;
}

std::optional<std::string> RecordText::value(std::string_view key) const {
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [key](const auto& entry) { return entry.first == key; });
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

}  // namespace holdfast::ids
