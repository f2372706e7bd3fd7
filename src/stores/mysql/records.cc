// The statements about records.
#include <string>
#include <string_view>

#include "src/stores/mysql/dialect.h"
#include "src/stores/mysql/text.h"

namespace holdfast::stores::mysql {

sql::Request MysqlDialect::read_record(const std::string& key) const {
  return {with_tables("SELECT @@global.read_only, r.version, r.value FROM (SELECT 1) one"
                      " LEFT JOIN @records r ON r.name = ") +
          text_of(std::string_view(key))};
}

// A row that is there stays as it is, and counts as unchanged.
sql::Request MysqlDialect::create_record(const std::string& key, const std::string& text) const {
  return {with_tables("INSERT INTO @records (name, version, value) VALUES (") +
          text_of(std::string_view(key)) + ",1," + text_of(std::string_view(text)) +
          ") ON DUPLICATE KEY UPDATE version = version"};
}

sql::Request MysqlDialect::replace_record(const std::string& key, std::int64_t version,
                                          const std::string& text) const {
  return {with_tables("UPDATE @records SET version = version + 1, value = ") +
          text_of(std::string_view(text)) + " WHERE name = " + text_of(std::string_view(key)) +
          " AND version = " + text_of(version)};
}

sql::Request MysqlDialect::wall_time() const {
  return {"SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"};
}

sql::Request MysqlDialect::durability() const {
  return {"SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog"};
}

std::string MysqlDialect::forgets(const sql::Rows& rows) const {
  if (rows.number(0, 0) != 1) {
    return "innodb_flush_log_at_trx_commit is " + std::string(rows.text(0, 0)) +
           ", so a crash may forget the newest changes";
  }
  if (rows.number(0, 1) == 0 || rows.number(0, 2) == 1) return {};
  return "sync_binlog is " + std::string(rows.text(0, 2)) +
         ", so a crash of the server's machine may forget the newest changes";
}

}  // namespace holdfast::stores::mysql
