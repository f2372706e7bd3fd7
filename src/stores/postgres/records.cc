// The statements about records. Each change is synced, whatever the database is set to.
#include <string>

#include "src/stores/postgres/dialect.h"
#include "src/stores/postgres/values.h"

namespace holdfast::stores::postgres {
namespace {

constexpr char kRead[] = R"sql(
SELECT CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END, r.version, r.text
FROM (SELECT 1) one LEFT JOIN @records r ON r.key = $1::bytea)sql";

constexpr char kCreate[] = R"sql(
INSERT INTO @records(key, version, text) SELECT $1::bytea, 1, $2::bytea
WHERE set_config('synchronous_commit', 'on', true) IS NOT NULL
ON CONFLICT DO NOTHING RETURNING version)sql";

constexpr char kReplace[] = R"sql(
UPDATE @records SET version = version + 1, text = $3::bytea
WHERE key = $1::bytea AND version = $2::bigint
  AND set_config('synchronous_commit', 'on', true) IS NOT NULL
RETURNING version)sql";

constexpr char kDurability[] = R"sql(
SELECT current_setting('fsync'), current_setting('full_page_writes'),
  CASE WHEN current_setting('synchronous_standby_names') = ''
    AND EXISTS (SELECT FROM pg_stat_replication) THEN 1 ELSE 0 END)sql";

}  // namespace

sql::Request PostgresDialect::read_record(const std::string& key) const {
  return {statements_.of(kRead), {bytea_of(key)}};
}

sql::Request PostgresDialect::create_record(const std::string& key, const std::string& text) const {
  return {statements_.of(kCreate), {bytea_of(key), bytea_of(text)}};
}

sql::Request PostgresDialect::replace_record(const std::string& key, std::int64_t version,
                                             const std::string& text) const {
  return {statements_.of(kReplace), {bytea_of(key), std::to_string(version), bytea_of(text)}};
}

sql::Request PostgresDialect::wall_time() const {
  return {"SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"};
}

sql::Request PostgresDialect::durability() const { return {kDurability}; }

std::string PostgresDialect::forgets(const sql::Rows& rows) const {
  for (int column = 0; column < 2; ++column) {
    if (rows.text(0, column) == "on") continue;
    return std::string(column == 0 ? "fsync" : "full_page_writes") +
           " is off, so a crash of the server's machine may forget changes";
  }
  if (rows.number(0, 2) == 0) return {};
  return "no standby is synchronous, so a promoted one may forget the newest changes";
}

}  // namespace holdfast::stores::postgres
