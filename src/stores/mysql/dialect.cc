#include "src/stores/mysql/dialect.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/base/hex.h"
#include "src/base/random.h"
#include "src/stores/mysql/guarantees.h"
#include "src/stores/mysql/text.h"

namespace holdfast::stores::mysql {
namespace {

// Locks of whose queues a poll looks at the front.
constexpr std::size_t kMostFronts = 4;

// The same in every time zone, and for the whole of a statement.
constexpr std::string_view kClock = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";

std::string clock_of(sql::Now now) { return now ? text_of(*now) : std::string(kClock); }

constexpr std::string_view kInsertLock = R"sql(INSERT INTO @locks (name, version, refuse_until,
token, at, due, tickets, next_ord, kind, capacity, solo_id, solo_mode, solo_permits, solo_seq,
solo_end, solo_lease, solo_ttl, solo_waiter_ttl, owner, stamp) VALUES )sql";

constexpr std::string_view kIfFree = R"sql( ON DUPLICATE KEY UPDATE
stamp = IF(tickets = 0 AND at <= VALUES(at) AND refuse_until <= VALUES(at)
  AND (solo_id IS NULL OR (solo_end <= VALUES(at) AND solo_id <> VALUES(solo_id))),
  VALUES(stamp), stamp),
version = IF(stamp = VALUES(stamp), version + 1, version),
token = IF(stamp = VALUES(stamp), LAST_INSERT_ID(GREATEST(token + 1, VALUES(token))), token),
at = IF(stamp = VALUES(stamp), VALUES(at), at),
kind = IF(stamp = VALUES(stamp), VALUES(kind), kind),
capacity = IF(stamp = VALUES(stamp), VALUES(capacity), capacity),
solo_id = IF(stamp = VALUES(stamp), VALUES(solo_id), solo_id),
solo_mode = IF(stamp = VALUES(stamp), VALUES(solo_mode), solo_mode),
solo_permits = IF(stamp = VALUES(stamp), VALUES(solo_permits), solo_permits),
solo_seq = IF(stamp = VALUES(stamp), 0, solo_seq),
solo_end = IF(stamp = VALUES(stamp), VALUES(solo_end), solo_end),
solo_lease = IF(stamp = VALUES(stamp), VALUES(solo_lease), solo_lease),
solo_ttl = IF(stamp = VALUES(stamp), VALUES(solo_ttl), solo_ttl),
solo_waiter_ttl = IF(stamp = VALUES(stamp), VALUES(solo_waiter_ttl), solo_waiter_ttl),
owner = IF(stamp = VALUES(stamp), VALUES(owner), owner))sql";

// `n`: the clock, as text.
std::string grant_row(const sql::FastCommand& grant, const std::string& n, std::int64_t stamp) {
  return '(' + text_of(std::string_view(grant.name)) + ',' + n + ",0,LAST_INSERT_ID(" + n + ")," +
         n + ",9223372036854775807,0,2," + text_of(grant.kind) + ',' + text_of(grant.capacity) +
         ',' + text_of(grant.id) + ',' + text_of(grant.mode) + ',' + text_of(grant.permits) +
         ",0," + n + '+' + text_of(grant.ttl) + ',' + text_of(grant.ttl) + ',' +
         text_of(grant.ttl) + ',' + text_of(grant.waiter_ttl) + ',' +
         text_of(std::string_view(grant.owner)) + ',' + text_of(stamp) + ')';
}

// The same where the lock has a row.
std::string regrant_of(const sql::FastCommand& grant, const std::string& n) {
  const std::string id = text_of(grant.id);
  const std::string ttl = text_of(grant.ttl);
  return "version = version + 1, token = LAST_INSERT_ID(GREATEST(token + 1, " + n +
         ")), at = " + n + ", kind = " + text_of(grant.kind) +
         ", capacity = " + text_of(grant.capacity) +
         ", solo_mode = " + text_of(grant.mode) + ", solo_permits = " + text_of(grant.permits) +
         ", solo_seq = 0, solo_lease = " + ttl + ", solo_ttl = " + ttl +
         ", solo_waiter_ttl = " + text_of(grant.waiter_ttl) +
         ", owner = " + text_of(std::string_view(grant.owner)) + ", solo_id = " + id +
         ", solo_end = " + n + '+' + ttl + " WHERE name = " +
         text_of(std::string_view(grant.name)) + " AND tickets = 0 AND at <= " + n +
         " AND refuse_until <= " + n + " AND (solo_id IS NULL OR (solo_end <= " + n +
         " AND solo_id <> " + id + "))";
}

std::string release_of(const std::string& n) {
  return "solo_end > " + n + " AND tickets = 0 AND at <= " + n;
}

constexpr std::string_view kColumns = R"sql(SELECT c.n, q.name, l.version, l.token, l.at, l.due,
l.tickets, l.next_ord, l.kind, l.capacity, l.solo_id, l.solo_mode, l.solo_permits, l.solo_seq,
l.solo_end, l.solo_lease, l.solo_ttl, l.solo_waiter_ttl, l.owner, e.value, e.broken_token,
e.broken_by, CASE WHEN l.refuse_until > 0 THEN (SELECT GROUP_CONCAT(LOWER(HEX(d.id)), d.ends
  SEPARATOR ' ') FROM @tombstones d WHERE d.name = q.name) END,
t.ord, t.id, t.flags, t.mode, t.permits, t.upgrade_of, t.token, t.seq, t.lease_end, t.lease,
t.ttl, t.waiter_ttl, t.owner FROM (SELECT )sql";

constexpr std::string_view kJoins = R"sql() q
LEFT JOIN @locks l ON l.name = q.name LEFT JOIN @extras e ON e.name = q.name
LEFT JOIN @tickets t ON t.name = q.name AND l.tickets > 0 ORDER BY q.name, t.ord)sql";

// The items of a batch as rows, named i; @i is their text.
constexpr std::string_view kItems = R"sql(JSON_TABLE(@i, '$[*]' COLUMNS (nr FOR ORDINALITY,
name VARCHAR(1024) PATH '$[0]', id VARCHAR(32) PATH '$[1]', seq BIGINT PATH '$[2]',
ttl BIGINT PATH '$[3]', waiter_ttl BIGINT PATH '$[4]')) AS i )sql";

// The rows of `locks` are locked by name first: see kLockRows. A row that the first two statements
// leave alone is not taken for one that they changed: its seq or its lease would have to be the
// same, and then the answer is right, too. A ticket that waits for an upgrade stands ahead of all
// others.
constexpr std::string_view kRenewSolo = R"sql(STRAIGHT_JOIN @locks l FORCE INDEX (PRIMARY)
ON l.name = UNHEX(i.name)
SET l.solo_end = @n + i.ttl, l.solo_lease = i.ttl, l.solo_seq = i.seq,
  l.at = GREATEST(l.at, @n), l.version = l.version + 1
WHERE l.solo_id = UNHEX(i.id) AND l.tickets = 0 AND l.solo_end > @n AND l.at <= @n
  AND l.solo_seq < i.seq AND l.solo_end < @n + i.ttl)sql";

constexpr std::string_view kBeat = R"sql(STRAIGHT_JOIN @locks l FORCE INDEX (PRIMARY)
ON l.name = UNHEX(i.name) STRAIGHT_JOIN @tickets t FORCE INDEX (PRIMARY)
ON t.name = l.name AND t.id = UNHEX(i.id)
SET t.seq = i.seq, t.lease_end = @n + IF(t.flags = 1, i.ttl, i.waiter_ttl),
  t.lease = IF(t.flags = 1, i.ttl, i.waiter_ttl), l.version = l.version + 1
WHERE l.due > @n AND l.at <= @n AND l.tickets > 0 AND t.flags < 2 AND t.seq < i.seq
  AND t.lease_end > @n AND t.lease_end < @n + IF(t.flags = 1, i.ttl, i.waiter_ttl))sql";

constexpr std::string_view kRenewed = R"sql(
SELECT i.nr, 1, l.token, 0, NULL FROM @items STRAIGHT_JOIN @locks l FORCE INDEX (PRIMARY)
ON l.name = UNHEX(i.name)
WHERE l.solo_id = UNHEX(i.id) AND l.tickets = 0 AND l.solo_seq = i.seq
  AND l.solo_end = @n + i.ttl AND l.at <= @n
UNION ALL
SELECT i.nr, t.flags, t.token,
  CASE WHEN t.flags = 1 OR t.upgrade_of IS NOT NULL THEN 0
    WHEN t.ord > (SELECT w.ord FROM @tickets w WHERE w.name = t.name AND w.flags = 0
      ORDER BY w.ord LIMIT 1 OFFSET 64) THEN 65
    ELSE (SELECT COUNT(*) FROM @tickets w WHERE w.name = t.name AND w.flags IN (0, 2)
      AND w.ord < t.ord) END,
  CASE WHEN t.flags = 0 THEN h.due - @n END
FROM @items STRAIGHT_JOIN @locks l FORCE INDEX (PRIMARY) ON l.name = UNHEX(i.name)
STRAIGHT_JOIN @tickets t FORCE INDEX (PRIMARY) ON t.name = l.name AND t.id = UNHEX(i.id)
LEFT JOIN (SELECT name, MIN(lease_end) AS due FROM @tickets WHERE name IN (@names) AND flags = 1
  GROUP BY name) h ON h.name = t.name
WHERE l.due > @n AND l.at <= @n AND l.tickets > 0 AND t.flags < 2 AND t.seq = i.seq
  AND t.lease_end = @n + IF(t.flags = 1, i.ttl, i.waiter_ttl))sql";

// By name, so that nobody waits in a circle.
constexpr std::string_view kLockRows =
    "SELECT name FROM @locks FORCE INDEX (PRIMARY) WHERE name IN (@names) ORDER BY name"
    " FOR UPDATE;";

std::string replaced(std::string text, std::string_view mark, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != text.npos; at += by.size()) {
    text.replace(at, mark.size(), by);
  }
  return text;
}

}  // namespace

std::int64_t new_stamp() {
  return static_cast<std::int64_t>(base::random_128().low >> 1U) | 1;
}

MysqlDialect::MysqlDialect(const MysqlAddress& address)
    : address_(address.display()),
      database_(address.database),
      prefix_(address.prefix),
      insert_(with_tables(kInsertLock)),
      if_free_(kIfFree),
      update_(with_tables("UPDATE @locks SET ")),
      release_(with_tables("UPDATE @locks SET solo_id = NULL, at = GREATEST(at, ")),
      columns_(with_tables(kColumns)),
      joins_(with_tables(kJoins)) {}

std::string MysqlDialect::with_tables(std::string_view pattern) const {
  std::string text(pattern);
  for (const char* table : {"locks", "tickets", "tombstones", "extras", "records", "meta"}) {
    text = replaced(std::move(text), std::string("@") + table, '`' + prefix_ + table + '`');
  }
  return text;
}

// --- Grants and releases

sql::Request MysqlDialect::fast(const sql::FastCommand& command, sql::Now now) const {
  const std::string n = clock_of(now);
  if (command.grants && command.has_row) return {update_ + regrant_of(command, n)};
  if (command.grants) {
    return {insert_ + grant_row(command, n, new_stamp()) + if_free_};
  }
  return {release_ + n + "), version = version + 1 WHERE name = " +
          text_of(std::string_view(command.name)) + " AND solo_id = " + text_of(command.id) +
          " AND " + release_of(n)};
}

// The stamp tells which of them were carried out.
sql::Request MysqlDialect::fast_many(const std::vector<const sql::FastCommand*>& commands,
                                     sql::Now now) const {
  const std::int64_t number = new_stamp();
  const std::string stamp = text_of(number);
  std::string names;
  std::string ended_names;
  std::string ended;
  std::string granted;
  for (const sql::FastCommand* command : commands) {
    const std::string name = text_of(std::string_view(command->name));
    append(names, name);
    if (command->grants) {
      append(granted, grant_row(*command, "@n", number));
    } else {
      append(ended_names, name);
      append(ended, row_of(std::string_view(command->name), command->id));
    }
  }
  std::string text = "START TRANSACTION;SET @n = " + clock_of(now) + ';';
  std::size_t statements = 2;
  if (!granted.empty() && !ended.empty()) {
    text += replaced(std::string(kLockRows), "@names", names);
    ++statements;
  }
  if (!ended.empty()) {
    text += "UPDATE @locks FORCE INDEX (PRIMARY) SET solo_id = NULL, at = GREATEST(at, @n),"
            " version = version + 1, stamp = " +
            stamp + " WHERE name IN (" + ended_names + ") AND (name, solo_id) IN (" + ended +
            ") AND " + release_of("@n") + ';';
    ++statements;
  }
  if (!granted.empty()) {
    text += std::string(kInsertLock) + granted + if_free_ + ';';
    ++statements;
  }
  text += "SELECT name, token FROM @locks FORCE INDEX (PRIMARY) WHERE name IN (" + names +
          ") AND stamp = " + stamp + ";COMMIT";
  return {with_tables(text), {}, statements};
}

// --- Renewals and those who wait

sql::Request MysqlDialect::renew(const std::vector<port::RenewItem>& items, sql::Now now) const {
  std::string rows;
  std::string names;
  for (const port::RenewItem& item : items) {
    const std::string id = item.id ? base::hex_of(sql::bytes_of(item.id)) : "";
    append(rows, "[\"" + base::hex_of(item.name) + "\",\"" + id + "\"," +
                     std::to_string(item.seq) + ',' + text_of(item.ttl.count()) + ',' +
                     text_of(item.waiter_ttl.count()) + ']');
    append(names, text_of(std::string_view(item.name)));
  }
  std::string text = "SET @i = '[" + rows + "]';START TRANSACTION;SET @n = " + clock_of(now) + ';' +
                     std::string(kLockRows) + "UPDATE @items " + std::string(kRenewSolo) +
                     ";UPDATE @items " + std::string(kBeat) + ';' + std::string(kRenewed) +
                     ";COMMIT";
  text = replaced(replaced(std::move(text), "@items ", kItems), "@names", names);
  return {with_tables(text), {}, 6};
}

sql::Request MysqlDialect::look(const std::vector<Waiter>& waiters) const {
  std::set<std::string_view> names;
  for (const auto& [id, name] : waiters) names.insert(name);
  std::string list;
  for (const std::string_view name : names) append(list, text_of(name));
  std::string text =
      "SELECT solo_id, token, solo_seq, solo_lease FROM @locks WHERE name IN (" + list +
      ") AND solo_id IS NOT NULL UNION ALL SELECT id, token, seq, lease FROM @tickets WHERE name"
      " IN (" +
      list + ") AND flags = 1";
  // A client that waits for many locks asks without looking at their queues.
  for (const std::string_view name : names) {
    if (names.size() > kMostFronts) break;
    text += " UNION ALL SELECT id, NULL, ROW_NUMBER() OVER (ORDER BY ord) - 1, NULL FROM"
            " (SELECT id, ord FROM @tickets WHERE name = " +
            text_of(name) + " AND flags = 0 ORDER BY ord LIMIT 25) f";
  }
  return {with_tables(text)};
}

// --- Reading

sql::Request MysqlDialect::read(const std::vector<std::string>& names, sql::Now now) const {
  std::string rows;
  for (const std::string& name : names) {
    rows += rows.empty() ? "SELECT " : " UNION ALL SELECT ";
    rows += text_of(std::string_view(name)) + " AS name";
  }
  return {columns_ + clock_of(now) + " AS n) c CROSS JOIN (" + rows + joins_};
}

sql::Request MysqlDialect::list(const std::string& from, const std::optional<std::string>& below,
                                std::size_t limit, sql::Now now) const {
  const std::string n = clock_of(now);
  std::string used = with_tables("SELECT name FROM @locks WHERE name >= ") +
                     text_of(std::string_view(from));
  if (below) used += " AND name < " + text_of(std::string_view(*below));
  used += " AND (tickets > 0 OR (solo_id IS NOT NULL AND solo_end > " + n +
          ")) ORDER BY name LIMIT " + std::to_string(limit);
  return {columns_ + n + " AS n) c CROSS JOIN (" + used + joins_};
}

sql::Request MysqlDialect::value(const std::string& name) const {
  return {with_tables("SELECT value FROM @extras WHERE name = ") +
          text_of(std::string_view(name))};
}

// --- The server

sql::Failure failure_of(const sql::Answer& answer) {
  using sql::Failure;
  const auto is = [&](auto... codes) { return ((answer.code == codes) || ...); };
  // Lock timeouts, deadlocks, a record that changed since it was read, and a full server.
  if (is("1205", "1213", "1020", "1040", "1203", "1226")) return Failure::kChangedNothing;
  if (is("1044", "1045", "1142", "1143", "1227", "1698", "1410", "2026")) {
    return Failure::kPermission;
  }
  if (is("1146")) return Failure::kNoTables;
  if (is("1054")) return Failure::kForeignTables;  // No such column.
  if (is("1049")) return Failure::kSettings;       // No such database.
  if (is("1290", "1836", "1792")) return Failure::kReadOnly;
  return Failure::kOther;
}

Guarantees MysqlDialect::guarantees() const { return mysql::guarantees(); }

}  // namespace holdfast::stores::mysql
