// The questions to the server: when a store is opened, and by `holdfast doctor`.
#include <string>

#include "src/port/examination.h"
#include "src/stores/mysql/dialect.h"
#include "src/stores/mysql/text.h"

namespace holdfast::stores::mysql {
namespace {

// A table is committed by itself, so the format comes last. Names are binary: they are compared by
// their bytes. Tickets of a table of locks that somebody has dropped belong to nobody.
constexpr char kCreate[] = R"sql(
CREATE TABLE IF NOT EXISTS @meta (id INT PRIMARY KEY, format INT NOT NULL) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS @locks (
  name VARBINARY(512) PRIMARY KEY, version BIGINT NOT NULL, refuse_until BIGINT NOT NULL,
  token BIGINT NOT NULL, at BIGINT NOT NULL, due BIGINT NOT NULL, tickets BIGINT NOT NULL,
  next_ord BIGINT NOT NULL, kind SMALLINT NOT NULL, capacity BIGINT NOT NULL,
  solo_id BINARY(16), solo_mode SMALLINT, solo_permits BIGINT, solo_seq BIGINT, solo_end BIGINT,
  solo_lease BIGINT, solo_ttl BIGINT, solo_waiter_ttl BIGINT, owner BLOB, stamp BIGINT NOT NULL)
  ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS @tickets (
  name VARBINARY(512) NOT NULL, ord BIGINT NOT NULL, id BINARY(16) NOT NULL,
  flags SMALLINT NOT NULL, mode SMALLINT NOT NULL, permits BIGINT NOT NULL,
  upgrade_of BINARY(16), token BIGINT NOT NULL, seq BIGINT NOT NULL, lease_end BIGINT NOT NULL,
  lease BIGINT NOT NULL, ttl BIGINT NOT NULL, waiter_ttl BIGINT NOT NULL, owner BLOB,
  PRIMARY KEY (name, id), KEY by_order (name, flags, ord)) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS @tombstones (
  name VARBINARY(512) NOT NULL, id BINARY(16) NOT NULL, ends BIGINT NOT NULL,
  PRIMARY KEY (name, id)) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS @extras (
  name VARBINARY(512) PRIMARY KEY, value BLOB, broken_token BIGINT, broken_by BLOB)
  ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS @records (
  name VARBINARY(512) PRIMARY KEY, version BIGINT NOT NULL, value BLOB NOT NULL)
  ENGINE = InnoDB;
DELETE t FROM @tickets t LEFT JOIN @locks l ON l.name = t.name WHERE l.name IS NULL;
INSERT INTO @meta VALUES (1, 1) ON DUPLICATE KEY UPDATE id = id)sql";

// The largest packet renews as many locks as go together, with the longest names.
constexpr std::int64_t kLargestPacket = std::int64_t{16} << 20U;

}  // namespace

Result<sql::Dialect::FoundTables> MysqlDialect::find_tables(const Ask& ask) const {
  std::string names;
  for (const char* const table : {"meta", "locks", "tickets", "tombstones", "extras", "records"}) {
    append(names, "'" + prefix_ + table + "'");
  }
  const auto there = ask({"SELECT COUNT(*), COALESCE(SUM(table_name = '" + prefix_ +
                          "meta'), 0) FROM information_schema.tables WHERE table_schema = "
                          "DATABASE() AND table_name IN (" + names + ')'});
  if (!there) return there.error();
  FoundTables result{.complete = (*there)->number(0, 0) == 6};
  if ((*there)->number(0, 1) == 0) return result;
  const auto found = ask({with_tables("SELECT format FROM @meta")});
  if (!found) return found.error();
  if ((*found)->size() > 0) result.format = (*found)->number(0, 0);
  return result;
}

// The last one's result, when all are made.
sql::Request MysqlDialect::creation() const { return {with_tables(kCreate), {}, 7}; }

std::string MysqlDialect::script() const {
  return "-- The tables of Holdfast's mysql store, format " + std::to_string(kFormat) +
         ". Their names begin with " + prefix_ +
         ".\n-- The database must exist. This may run twice.\nUSE `" + database_ + "`;" +
         with_tables(kCreate) + ";\n";
}

sql::Request MysqlDialect::examination() const {
  return {"SELECT @@version, @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog,"
          " (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"
          " AND engine = 'InnoDB' AND table_name IN ('" +
          prefix_ + "locks','" + prefix_ + "tickets','" + prefix_ + "tombstones','" + prefix_ +
          "extras')), @@global.max_allowed_packet"};
}

port::Findings MysqlDialect::judge(const sql::Rows& rows, bool /*listening*/) const {
  using port::add;
  port::Findings findings;
  const std::string version(rows.text(0, 0));
  const bool mariadb = version.find("MariaDB") != version.npos;
  add(findings, Severity::kOk, "version", mariadb ? version : "MySQL " + version);
  if (rows.number(0, 1) != 1) {
    add(findings, Severity::kProblem, "durability",
        "innodb_flush_log_at_trx_commit is " + std::string(rows.text(0, 1)) +
            ": a crash of the server forgets its newest grants",
        "set innodb_flush_log_at_trx_commit to 1");
  } else {
    add(findings, Severity::kOk, "durability", "answered changes are on the server's disk");
  }
  if (rows.number(0, 2) != 0 && rows.number(0, 3) != 1) {
    add(findings, Severity::kWarning, "binary log",
        "sync_binlog is " + std::string(rows.text(0, 3)) +
            ": after a crash the server and its replicas may differ",
        "set sync_binlog to 1");
  }
  if (rows.number(0, 4) != 4) {
    add(findings, Severity::kProblem, "tables",
        "a table is missing or not of InnoDB: without transactions nothing is guaranteed",
        "run 'holdfast store init'; where a table is not of InnoDB: drop it while nobody uses it");
  }
  if (rows.number(0, 5) < kLargestPacket) {
    add(findings, Severity::kProblem, "packets",
        "max_allowed_packet is " + std::string(rows.text(0, 5)) +
            ": the server refuses to renew thousands of locks at once, and they are lost",
        "set max_allowed_packet to 16 MiB or more");
  }
  add(findings, Severity::kWarning, "replication",
      "replicas are not waited for: a promoted one forgets the newest grants",
      "rely on fencing tokens where the resource checks them");
  add(findings, Severity::kOk, "wake-ups", "waiters poll every 20 ms to 500 ms");
  return findings;
}

}  // namespace holdfast::stores::mysql
