// The dialect of MySQL 8 and MariaDB 10.6 or later: see src/sql/dialect.h.
//
// A request is one packet: one statement, or a transaction of several, so that no row stays locked
// over a round trip. The later statements of a write depend on @won: whether the row has a stamp of
// this packet, because the first one found the lock as it had been read.
//
// Conditions of a grant look at the lock's own row alone. They are stated once, for the column
// `stamp`, which takes a number of this statement's own; all other columns change if it did. (The
// assignments of ON DUPLICATE KEY UPDATE see those before them.)
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "src/sql/dialect.h"
#include "src/stores/mysql/url.h"

namespace holdfast::stores::mysql {

inline constexpr int kFormat = 1;

// The meaning of an error: why a request was refused, or was not sent.
sql::Failure failure_of(const sql::Answer& answer);

class MysqlDialect final : public sql::Dialect {
 public:
  explicit MysqlDialect(const MysqlAddress& address);

  std::string_view store() const override { return "mysql"; }
  const std::string& address() const override { return address_; }
  const std::string& place() const override { return prefix_; }

  sql::Request fast(const sql::FastCommand& command, sql::Now now) const override;
  sql::Request fast_many(const std::vector<const sql::FastCommand*>& commands,
                         sql::Now now) const override;
  sql::Request renew(const std::vector<port::RenewItem>& items, sql::Now now) const override;
  sql::Request look(const std::vector<Waiter>& waiters) const override;
  sql::Request read(const std::vector<std::string>& names, sql::Now now) const override;
  sql::Request list(const std::string& from, const std::optional<std::string>& below,
                    std::size_t limit, sql::Now now) const override;
  sql::Request value(const std::string& name) const override;
  sql::Request write(const sql::Writes& writes) override;
  std::size_t most_apart() const override { return 32; }

  sql::Failure failure_of(const sql::Answer& answer) const override {
    return mysql::failure_of(answer);
  }
  std::string tables() const override { return "the tables " + prefix_ + "*"; }
  int format() const override { return kFormat; }
  Result<FoundTables> find_tables(const Ask& ask) const override;
  sql::Request creation() const override;
  std::string script() const override;
  sql::Request read_record(const std::string& key) const override;
  sql::Request create_record(const std::string& key, const std::string& text) const override;
  sql::Request replace_record(const std::string& key, std::int64_t version,
                              const std::string& text) const override;
  sql::Request wall_time() const override;
  sql::Request durability() const override;
  std::string forgets(const sql::Rows& rows) const override;
  Guarantees guarantees() const override;
  sql::Request examination() const override;
  port::Findings judge(const sql::Rows& rows, bool listening) const override;

 private:
  // The text with the tables' names for "@locks" and so on.
  std::string with_tables(std::string_view pattern) const;

  const std::string address_;
  const std::string database_;
  const std::string prefix_;
  const std::string insert_;   // The beginning of a grant,
  const std::string if_free_;  // and its end.
  const std::string update_;   // The beginning of a grant where there is a row.
  const std::string release_;  // The beginning of a release.
  const std::string columns_;  // The text of read() and list() up to the clock,
  const std::string joins_;    // and after the names.
};

}  // namespace holdfast::stores::mysql
