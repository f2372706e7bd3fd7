// The packet by which a step writes what it changed.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "src/stores/mysql/dialect.h"
#include "src/stores/mysql/text.h"

namespace holdfast::stores::mysql {
namespace {

constexpr std::string_view kIfWon = " FROM DUAL WHERE @won > 0";

std::string bytes(std::string_view value) { return text_of(value); }

// "(a,b)" as "SELECT a,b": rows that depend on @won.
void append_row(std::string& rows, std::string row) {
  row.pop_back();
  rows += rows.empty() ? "SELECT " : " UNION ALL SELECT ";
  rows += std::string_view(row).substr(1);
  rows += kIfWon;
}

// The columns of `locks` after the name: values, or assignments where they are `named`.
std::string columns_of(const sql::Writes::Lock& lock, std::int64_t stamp, bool named) {
  std::string list;
  const auto put = [&](std::string_view name, const std::string& value) {
    append(list, named ? std::string(name) + " = " + value : value);
  };
  const rows::LockRow& row = lock.row;
  put("version", text_of(lock.version));
  put("refuse_until", text_of(lock.refuse_until));
  put("token", text_of(row.token));
  put("at", text_of(row.at));
  put("due", text_of(row.due));
  put("tickets", text_of(row.tickets));
  put("next_ord", text_of(row.next_order));
  put("kind", text_of(row.kind));
  put("capacity", text_of(row.capacity));
  const auto solo = [&](std::string_view name, const std::string& value) {
    put(name, row.solo ? value : "NULL");
  };
  const rows::TicketRow none;
  const rows::TicketRow& holder = row.solo ? *row.solo : none;
  solo("solo_id", text_of(holder.id));
  solo("solo_mode", text_of(holder.mode));
  solo("solo_permits", text_of(holder.permits));
  solo("solo_seq", text_of(holder.seq));
  solo("solo_end", text_of(holder.lease_end));
  solo("solo_lease", text_of(holder.lease));
  solo("solo_ttl", text_of(holder.ttl));
  solo("solo_waiter_ttl", text_of(holder.waiter_ttl));
  solo("owner", bytes(holder.owner));
  put("stamp", text_of(stamp));
  return list;
}

// Changes the row if it is as it was read. Its own result tells.
std::string lock_text(const sql::Writes::Lock& lock, std::int64_t stamp) {
  const std::string name = bytes(lock.row.name);
  if (lock.expected > 0) {
    return "UPDATE @locks SET " + columns_of(lock, stamp, true) + " WHERE name = " + name +
           " AND version = " + text_of(lock.expected);
  }
  return "INSERT INTO @locks (name, version, refuse_until, token, at, due, tickets, next_ord, kind,"
         " capacity, solo_id, solo_mode, solo_permits, solo_seq, solo_end, solo_lease, solo_ttl,"
         " solo_waiter_ttl, owner, stamp) VALUES (" +
         name + ',' + columns_of(lock, stamp, false) +
         ") ON DUPLICATE KEY UPDATE version = version";
}

std::string tickets_text(const sql::Writes& writes) {
  std::string rows;
  for (const auto& [lock, row] : writes.tickets) {
    append_row(rows, row_of(std::string_view(lock), row.order, row.id, row.flags, row.mode,
                            row.permits, row.upgrade_of, row.token, row.seq, row.lease_end,
                            row.lease, row.ttl, row.waiter_ttl, std::string_view(row.owner)));
  }
  return "INSERT INTO @tickets (name, ord, id, flags, mode, permits, upgrade_of, token, seq,"
         " lease_end, lease, ttl, waiter_ttl, owner) " +
         rows +
         " ON DUPLICATE KEY UPDATE ord = VALUES(ord), flags = VALUES(flags), mode = VALUES(mode),"
         " permits = VALUES(permits), upgrade_of = VALUES(upgrade_of), token = VALUES(token),"
         " seq = VALUES(seq), lease_end = VALUES(lease_end), lease = VALUES(lease),"
         " ttl = VALUES(ttl), waiter_ttl = VALUES(waiter_ttl), owner = VALUES(owner);";
}

// The other tables change only if the locks were as they had been read.
std::string rest_of(const sql::Writes& writes) {
  std::string text;
  std::string dropped;
  for (const auto& [lock, id] : writes.dropped) {
    append(dropped, row_of(std::string_view(lock), id));
  }
  std::string names;
  for (const sql::Writes::Lock& lock : writes.locks) append(names, bytes(lock.row.name));
  if (!dropped.empty()) {
    text += "DELETE FROM @tickets WHERE name IN (" + names + ") AND (name, id) IN (" + dropped +
            ") AND @won > 0;";
  }
  if (!writes.tickets.empty()) text += tickets_text(writes);
  for (const sql::Writes::Extra& extra : writes.extras) {
    text += "INSERT INTO @extras (name, value, broken_token, broken_by) SELECT " +
            bytes(extra.name) + ',' + (extra.value ? bytes(*extra.value) : "NULL") + ',' +
            (extra.broken ? text_of(extra.broken->token) + ',' + bytes(extra.broken->by)
                          : "NULL,NULL") +
            std::string(kIfWon) +
            " ON DUPLICATE KEY UPDATE value = COALESCE(VALUES(value), value), broken_token ="
            " COALESCE(VALUES(broken_token), broken_token), broken_by ="
            " COALESCE(VALUES(broken_by), broken_by);";
  }
  for (const auto& [lock, stones] : writes.tombstones) {
    text += "DELETE FROM @tombstones WHERE name = " + bytes(lock) + " AND @won > 0;";
    std::string rows;
    for (const machine::TombstoneImage& stone : stones) {
      append_row(rows, row_of(std::string_view(lock), stone.id,
                              stone.until.time_since_epoch().count()));
    }
    if (!rows.empty()) text += "INSERT INTO @tombstones (name, id, ends) " + rows + ';';
  }
  return text;
}

// Whether the row was changed by the statement before. ROW_COUNT() would not do: it is wrong when
// that statement's answer could not be sent, and the server goes on with the others all the same.
std::string set_won(const sql::Writes::Lock& lock, std::int64_t stamp) {
  return ";SET @won = (SELECT COUNT(*) FROM @locks WHERE name = " + bytes(lock.row.name) +
         " AND stamp = " + text_of(stamp) + ");";
}

// The part of `writes` that is about this lock.
sql::Writes part_of(const sql::Writes& writes, const sql::Writes::Lock& lock) {
  sql::Writes part;
  part.locks = {lock};
  const auto copy = [&](const auto& from, auto& to, const auto name) {
    std::copy_if(from.begin(), from.end(), std::back_inserter(to),
                 [&](const auto& each) { return each.*name == lock.row.name; });
  };
  copy(writes.tickets, part.tickets, &sql::Writes::Ticket::lock);
  copy(writes.dropped, part.dropped, &sql::Writes::Dropped::lock);
  copy(writes.extras, part.extras, &sql::Writes::Extra::name);
  copy(writes.tombstones, part.tombstones, &sql::Writes::Tombstones::lock);
  return part;
}

constexpr std::string_view kLockRows =
    "START TRANSACTION;SELECT name FROM @locks FORCE INDEX (PRIMARY) WHERE name IN (@names)"
    " ORDER BY name FOR UPDATE;";

std::string lock_rows(const std::string& names) {
  std::string text(kLockRows);
  return text.replace(text.find("@names"), 6, names);
}

// Locks that have nothing to do with each other, in one transaction. The stamp tells which were
// as they had been read.
std::string apart_of(const sql::Writes& writes, std::int64_t stamp) {
  std::vector<const sql::Writes::Lock*> locks;
  for (const sql::Writes::Lock& lock : writes.locks) locks.push_back(&lock);
  std::sort(locks.begin(), locks.end(),
            [](const auto* a, const auto* b) { return a->row.name < b->row.name; });
  std::string names;
  std::string changes;
  for (const sql::Writes::Lock* lock : locks) {
    append(names, bytes(lock->row.name));
    changes += lock_text(*lock, stamp) + set_won(*lock, stamp) + rest_of(part_of(writes, *lock));
  }
  return lock_rows(names) + changes + "SELECT name FROM @locks WHERE name IN (" + names +
         ") AND stamp = " + text_of(stamp) + ";COMMIT";
}

// All rows of several locks are locked first and by name, so that nobody waits in a circle.
// Missing rows are made, with a stamp, and go again if another row is not as it was read.
std::string several_of(const sql::Writes& writes, std::int64_t stamp) {
  std::string names;
  std::string as_read = "(NULL,NULL)";
  std::string made;
  std::string changed;
  for (const sql::Writes::Lock& lock : writes.locks) {
    append(names, bytes(lock.row.name));
    if (lock.expected == 0) {
      made += lock_text(lock, stamp) + ';';
    } else {
      append(as_read, row_of(std::string_view(lock.row.name), lock.expected));
      changed += lock_text(lock, 0) + " AND @won > 0;";
    }
  }
  const std::string all = text_of(static_cast<std::int64_t>(writes.locks.size()));
  return lock_rows(names) + made +
         "SET @won = (SELECT COUNT(*) FROM @locks WHERE name IN (" + names +
         ") AND ((name, version) IN (" + as_read + ") OR stamp = " + text_of(stamp) +
         "));SET @won = IF(@won = " + all + ", @won, 0);DELETE FROM @locks WHERE name IN (" +
         names + ") AND stamp = " + text_of(stamp) + " AND @won = 0;" + changed +
         rest_of(writes) + "SELECT @won;COMMIT";
}

}  // namespace

sql::Request MysqlDialect::write(const sql::Writes& writes) {
  if (writes.locks.size() > 1) {
    const std::string text =
        writes.apart ? apart_of(writes, new_stamp()) : several_of(writes, new_stamp());
    // The last statement but one answers.
    const auto ends = static_cast<std::size_t>(std::count(text.begin(), text.end(), ';'));
    return {with_tables(text), {}, ends - 1};
  }
  const std::string rest = rest_of(writes);
  const sql::Writes::Lock& lock = writes.locks.front();
  if (rest.empty()) return {with_tables(lock_text(lock, 0))};
  const std::int64_t stamp = new_stamp();
  return {with_tables("START TRANSACTION;" + lock_text(lock, stamp) + set_won(lock, stamp) + rest +
                      "COMMIT"),
          {},
          1};
}

}  // namespace holdfast::stores::mysql
