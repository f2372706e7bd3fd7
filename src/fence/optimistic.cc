#include "holdfast/optimistic.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "src/base/random.h"

namespace holdfast::optimistic {
namespace {

// Text and parameters, which PostgreSQL numbers.
class Writer {
 public:
  explicit Writer(Dialect dialect) : dialect_(dialect) {}

  Writer& text(std::string_view more) {
    statement_.text += more;
    return *this;
  }
  Writer& value(std::string more) {
    statement_.values.push_back(std::move(more));
    statement_.text +=
        dialect_ == Dialect::kPostgres ? "$" + std::to_string(statement_.values.size()) : "?";
    return *this;
  }
  Writer& assign(std::string_view column, std::string value_of_it) {
    return text(column).text(" = ").value(std::move(value_of_it));
  }
  Writer& where_key(const Row& row) { return text(" WHERE ").assign(row.key_column, row.key); }
  Statement take() { return std::move(statement_); }

 private:
  Dialect dialect_;
  Statement statement_;
};

std::string several_rows(std::size_t matched) {
  return "the optimistic write matched " + std::to_string(matched) +
         " rows: its key column must be unique, correct those rows";
}

}  // namespace

Statement read(Dialect dialect, const Row& row, const std::vector<std::string>& columns,
               Reading reading) {
  Writer out(dialect);
  out.text("SELECT ");
  for (const std::string& column : columns) out.text(column).text(", ");
  out.text(row.version_column).text(" FROM ").text(row.table).where_key(row);
  if (reading == Reading::kForUpdate && dialect != Dialect::kSqlite) out.text(" FOR UPDATE");
  return out.take();
}

Statement update(Dialect dialect, const Row& row, const Columns& columns, std::int64_t version) {
  Writer out(dialect);
  out.text("UPDATE ").text(row.table).text(" SET ");
  for (const auto& [column, value] : columns) out.assign(column, value).text(", ");
  out.text(row.version_column).text(" = ").text(row.version_column).text(" + 1").where_key(row);
  return out.text(" AND ").assign(row.version_column, std::to_string(version)).take();
}

Result<Statement> transition(Dialect dialect, const Row& row, const std::string& from,
                             const std::string& to, const Columns& also,
                             std::string_view state_column) {
  if (from == to) {
    return Error(Errc::kInvalidArgument, "a transition of '" + row.table + "' from '" + from +
                                             "' to itself guards nothing: name two states");
  }
  Writer out(dialect);
  out.text("UPDATE ").text(row.table).text(" SET ").assign(state_column, to);
  for (const auto& [column, value] : also) out.text(", ").assign(column, value);
  return out.where_key(row).text(" AND ").assign(state_column, from).take();
}

std::chrono::nanoseconds pause_after(const RetryPolicy& policy, int failures) {
  // More doublings than this pass every longest pause.
  const int doublings = std::clamp(failures - 1, 0, 30);
  std::chrono::nanoseconds ceiling = std::max(policy.first_pause, policy.first_pause.zero());
  for (int i = 0; i < doublings && ceiling < policy.longest_pause; ++i) ceiling *= 2;
  ceiling = std::min<std::chrono::nanoseconds>(ceiling, policy.longest_pause);
  if (ceiling <= ceiling.zero()) return ceiling.zero();
  const std::uint64_t random = base::random_128().low;
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(random % (static_cast<std::uint64_t>(ceiling.count()) + 1)));
}

Result<void> retry(const RetryPolicy& policy, const Attempt& attempt, Reading reading) {
  if (policy.tries < 1) {
    return Error(Errc::kInvalidArgument, "an optimistic retry needs at least one try");
  }
  std::string why;
  for (int failures = 0; failures < policy.tries; ++failures) {
    if (failures > 0) std::this_thread::sleep_for(pause_after(policy, failures));
    const Result<std::size_t> matched = attempt(reading);
    if (matched && *matched == 1) return {};
    if (matched && *matched > 1) {
      return Error(Errc::kInvalidArgument, several_rows(*matched));
    }
    if (!matched && matched.error().code() != Errc::kUnavailable) return matched.error();
    why = matched ? "another writer changed the row first" : matched.error().message();
  }
  return Error(Errc::kUnavailable, "the row was not written in " + std::to_string(policy.tries) +
                                       " tries (" + why + "): retry later");
}

}  // namespace holdfast::optimistic
