#include "src/primitives/value_records.h"

#include <string_view>
#include <utility>

#include "src/primitives/document.h"

namespace holdfast::primitives {
namespace {

constexpr std::string_view kLatchKind = "latch";
constexpr std::string_view kElectionKind = "election";
constexpr std::string_view kOnceKind = "once";

constexpr std::size_t kMostChanges = 16;
constexpr std::size_t kMostDocument = 4000;

}  // namespace

namespace latching {

Result<Count> read_count(const std::string& text, const std::string& name, std::uint64_t initial) {
  auto body = open_document(text, kLatchKind, name);
  if (!body) return std::move(body).error();
  if (!*body) return Count{initial, initial};
  Fields fields(**body);
  const auto first = fields.number();
  const auto left = fields.number();
  if (!fields.good() || !fields.at_end() || *left > *first) {
    return damaged_document(kLatchKind, name);
  }
  return Count{*first, *left};
}

std::string write_count(const Count& count) {
  std::string body;
  put(body, count.initial);
  put(body, count.left);
  return make_document(kLatchKind, body);
}

}  // namespace latching

namespace electing {
namespace {

std::string write_record(const Record& record) {
  std::string body;
  put(body, record.last);
  for (const LeaderInfo& change : record.changes) {
    put(body, change.token);
    put_text(body, change.leader);
    put_text(body, change.value);
  }
  return make_document(kElectionKind, body);
}

}  // namespace

Result<Record> read_record(const std::string& text, const std::string& name) {
  auto body = open_document(text, kElectionKind, name);
  if (!body) return std::move(body).error();
  Record record;
  if (!*body) return record;
  Fields fields(**body);
  const auto last = fields.number();
  while (fields.good() && !fields.at_end()) {
    const auto token = fields.token();
    auto leader = fields.text();
    auto value = fields.text();
    if (!fields.good()) break;
    record.changes.push_back({*token, *std::move(leader), *std::move(value)});
  }
  if (!fields.good() || record.changes.empty() || record.changes.size() > *last) {
    return damaged_document(kElectionKind, name);
  }
  record.last = *last;
  return record;
}

std::string with(Record record, LeaderInfo change) {
  ++record.last;
  record.changes.push_back(std::move(change));
  std::string text = write_record(record);
  while (record.changes.size() > 1 &&
         (record.changes.size() > kMostChanges || text.size() > kMostDocument)) {
    record.changes.pop_front();
    text = write_record(record);
  }
  return text;
}

}  // namespace electing

namespace once_only {

Result<std::optional<std::string>> read_outcome(const std::string& text, const std::string& name,
                                                const Token& holder) {
  auto body = open_document(text, kOnceKind, name);
  if (!body || !*body) return body;
  Fields fields(**body);
  const auto token = fields.token();
  auto outcome = fields.text();
  if (!fields.good() || !fields.at_end()) return damaged_document(kOnceKind, name);
  if (*token != holder) return std::optional<std::string>();
  return outcome;
}

std::string write_outcome(const Token& holder, const std::string& outcome) {
  std::string body;
  put(body, holder);
  put_text(body, outcome);
  return make_document(kOnceKind, body);
}

}  // namespace once_only

}  // namespace holdfast::primitives
