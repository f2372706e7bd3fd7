#include "src/stores/mysql/counter.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/detail/number.h"
#include "src/sql/blocking_link.h"
#include "src/stores/mysql/connection.h"
#include "src/stores/mysql/dialect.h"
#include "src/stores/mysql/text.h"

namespace holdfast::stores::mysql {
namespace {

using base::BootInstant;

constexpr std::uint64_t kGreatest = std::numeric_limits<std::int64_t>::max();
// From mysqld_error.h, which not every client's package has.
constexpr std::string_view kThere = "1050";
constexpr std::string_view kNoTable = "1146";
constexpr std::string_view kNoColumn = "1054";
constexpr std::string_view kOutOfColumn = "1264";
constexpr std::string_view kOutOfRange = "1690";

std::string quoted(std::string_view name) {
  std::string text = "`";
  for (const char c : name) text += c == '`' ? std::string("``") : std::string(1, c);
  return text + "`";
}

class MysqlCounter final : public port::NativeCounter {
 public:
  MysqlCounter(const MysqlAddress& address, const std::string& name)
      : link_(std::make_unique<MysqlDialect>(address),
              link_settings(address, "holdfast-mycount", /*keep=*/false)),
        name_(name) {
    const std::size_t dot = name.find('.');
    database_ = dot == name.npos ? address.database : name.substr(0, dot);
    table_ = dot == name.npos ? name : name.substr(dot + 1);
    place_ = quoted(database_) + "." + quoted(table_);
  }

  Result<void> create(std::uint64_t from, BootInstant by) {
    const std::string before = std::to_string(static_cast<std::int64_t>(from) - 1);
    const sql::Answer made =
        link_.send({"CREATE TABLE " + place_ + " (id BIGINT NOT NULL PRIMARY KEY) ENGINE=InnoDB;" +
                        "INSERT INTO " + place_ + " VALUES (" + before + ")",
                    {},
                    1},
                   by);
    if (made.fate == sql::Fate::kDone) return {};
    if (made.code == kThere) return Error(Errc::kStoreInUse, named() + "it is there already");
    return error_of(link_.dialect(), made);
  }

  Result<void> open(BootInstant by) {
    auto losses = link_.forgets(by);
    if (!losses) return losses.error();
    forgets_ = *std::move(losses);
    if (auto fit = look_at_table(by); !fit) return fit;
    const std::string look = "SELECT COUNT(*), MIN(v) FROM (SELECT " + quoted(column_) +
                             " AS v FROM " + place_ + " LIMIT 2) AS few";
    const auto rows = link_.ask({look}, by, /*reads=*/true);
    if (!rows) return rows.error();
    const std::int64_t count = (*rows)->number(0, 0);
    if (count == 0) {
      return unfit("its table has no row: put one in, INSERT INTO " + place_ +
                   " VALUES (the last number that was given, or 0)");
    }
    if (count > 1) return unfit("a counter is the only row of its table, and there are more");
    if ((*rows)->is_null(0, 1)) return unfit("its value is NULL: set it to the last number, or 0");
    const std::string_view value = (*rows)->text(0, 1);
    // -1 is before the first number 0.
    if (value.starts_with('-') && value != "-1") return unfit(negative(value));
    return {};
  }

  Result<Taken> take(std::uint32_t count, BootInstant by) override {
    const std::string column = quoted(column_);
    const sql::Answer answer =
        link_.send({"UPDATE " + place_ + " SET " + column + " = LAST_INSERT_ID(" + column + " + " +
                        std::to_string(count) + ");SELECT LAST_INSERT_ID(), ROW_COUNT()",
                    {},
                    1},
                   by);
    if (answer.code == kOutOfRange || answer.code == kOutOfColumn) return out_of_range(by);
    if (answer.code == kNoTable || answer.code == kNoColumn) {
      return Error(Errc::kCorruptState, named() + "it is gone: " + answer.message);
    }
    if (answer.fate != sql::Fate::kDone) return error_of(link_.dialect(), answer);
    if (answer.rows->number(0, 1) != 1) {
      return Error(Errc::kCorruptState,
                   named() + "it had one row, and has " + std::string(answer.rows->text(0, 1)));
    }
    const auto last = detail::parse_number<std::uint64_t>(answer.rows->text(0, 0));
    if (last && *last > kGreatest && is_unsigned_) {
      return Error(Errc::kUnsupported, named() + "it is beyond 2^63 - 1");
    }
    // The server shows what it keeps of a negative number as one without a sign.
    if (!last || *last > kGreatest || *last + 1 < count) {
      const auto now = static_cast<std::int64_t>(last.value_or(0));
      return Error(Errc::kCorruptState,
                   named() + negative(std::to_string(now - std::int64_t{count})));
    }
    Taken taken{.counter = *last};
    for (std::uint64_t left = count; left > 0; --left) taken.numbers.push_back(*last - left + 1);
    return taken;
  }

  std::string forgets() const override { return forgets_; }

 private:
  // LAST_INSERT_ID() has no sign, so a number below zero is beyond the column, too.
  Error out_of_range(BootInstant by) {
    const auto rows =
        link_.ask({"SELECT MIN(" + quoted(column_) + ") FROM " + place_}, by, /*reads=*/true);
    if (!rows) return rows.error();
    const std::string_view value = (*rows)->text(0, 0);
    if (value.starts_with('-')) return {Errc::kCorruptState, named() + negative(value)};
    return {Errc::kUnsupported, named() + "the last number of its column is given"};
  }
  static std::string negative(std::string_view value) {
    return "it is at " + std::string(value) +
           ", and ids are no negative numbers: set it to the last number that was given, or 0";
  }
  Error unfit(const std::string& why) const { return {Errc::kInvalidArgument, named() + why}; }
  std::string named() const { return link_.where() + ": counter table " + name_ + ": "; }

  Result<void> look_at_table(BootInstant by) {
    const auto found =
        link_.ask({"SELECT t.table_type, t.engine, COUNT(*), MIN(c.column_name), MIN(c.data_type),"
                   " MIN(c.column_type)"
                   " FROM information_schema.tables t JOIN information_schema.columns c"
                   " ON c.table_schema = t.table_schema AND c.table_name = t.table_name"
                   " WHERE t.table_schema = " +
                   text_of(std::string_view(database_)) + " AND t.table_name = " +
                   text_of(std::string_view(table_)) + " GROUP BY t.table_type, t.engine"},
                  by, /*reads=*/true);
    if (!found) return found.error();
    const sql::Rows& row = **found;
    if (row.size() == 0) {
      return unfit(
          "there is none, or this user may not see it: make it once "
          "(StoreCounter::create, or CREATE TABLE)");
    }
    const std::string kind(row.text(0, 0));
    if (kind == "SEQUENCE") {
      return Error(Errc::kUnsupported,
                   named() +
                       "this is a sequence of MariaDB, which may answer a number before it is "
                       "on the disk: take a table of one row");
    }
    if (kind != "BASE TABLE") return unfit("this is no table, but a " + kind);
    if (row.number(0, 2) != 1 || !row.text(0, 4).ends_with("int")) {
      return unfit("a counter's table has one column, of whole numbers: see docs/guide/ids.md");
    }
    column_ = row.bytes(0, 3);
    is_unsigned_ = row.text(0, 5).find("unsigned") != std::string_view::npos;
    if (row.text(0, 1) != "InnoDB" && forgets_.empty()) {
      forgets_ = named() + "its engine is " + std::string(row.text(0, 1)) +
                 ", which may lose a change in a crash";
    }
    return {};
  }

  sql::BlockingLink link_;
  const std::string name_;
  std::string database_;
  std::string table_;
  std::string place_;  // Both, with quotes.
  std::string column_;
  bool is_unsigned_ = false;
  std::string forgets_;
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_counter(const MysqlAddress& address,
                                                  const port::StoreContext& context) {
  return port::answer(*context.counter,
                      std::make_unique<MysqlCounter>(address, context.counter->name),
                      context.open_by);
}

}  // namespace holdfast::stores::mysql
