#include "src/stores/postgres/dialect.h"

#include <algorithm>
#include <utility>

#include "src/stores/postgres/connection.h"
#include "src/stores/postgres/guarantees.h"
#include "src/stores/postgres/values.h"
#include "src/stores/postgres/writes.h"

namespace holdfast::stores::postgres {
namespace {

Param param_of(sql::Now now) { return now ? Param(std::to_string(*now)) : std::nullopt; }

Param param_of(std::int64_t number) { return std::to_string(number); }

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

}  // namespace

sql::Request PostgresDialect::fast(const sql::FastCommand& command, sql::Now now) const {
  const std::string& grant = command.has_row ? statements_.regrant : statements_.grant;
  sql::Request request{command.grants ? grant : statements_.release,
                       {bytea_of(command.name), param_of(now), param_of(command.id)}};
  if (!command.grants) return request;
  for (const std::int64_t number : {command.mode, command.permits, command.kind, command.capacity,
                                    command.ttl, command.waiter_ttl}) {
    request.params.push_back(param_of(number));
  }
  request.params.emplace_back(bytea_of(command.owner));
  return request;
}

sql::Request PostgresDialect::fast_many(const std::vector<const sql::FastCommand*>& commands,
                                        sql::Now now) const {
  Array names, ids, modes, permits, kinds, capacities, ttls, waiter_ttls, owners;
  for (const sql::FastCommand* command : commands) {
    names.add_bytes(command->name);
    ids.add_id(command->id);
    if (!command->grants) {
      for (Array* column :
           {&modes, &permits, &kinds, &capacities, &ttls, &waiter_ttls, &owners}) {
        column->add_null();
      }
      continue;
    }
    modes.add(command->mode);
    permits.add(command->permits);
    kinds.add(command->kind);
    capacities.add(command->capacity);
    ttls.add(command->ttl);
    waiter_ttls.add(command->waiter_ttl);
    owners.add_bytes(command->owner);
  }
  return {statements_.many,
          {param_of(now), names.param(), ids.param(), modes.param(), permits.param(),
           kinds.param(), capacities.param(), ttls.param(), waiter_ttls.param(), owners.param()}};
}

std::optional<sql::Request> PostgresDialect::hand_on(const sql::FastCommand& release,
                                                     const std::string& own,
                                                     sql::Now now) const {
  return sql::Request{statements_.hand_on,
                      {bytea_of(release.name), param_of(now), param_of(release.id), own}};
}

sql::Request PostgresDialect::renew(const std::vector<port::RenewItem>& items,
                                    sql::Now now) const {
  Array names, ids, seqs, ttls, waiter_ttls;
  for (const port::RenewItem& item : items) {
    names.add_bytes(item.name);
    ids.add_id(item.id);
    seqs.add(static_cast<std::int64_t>(item.seq));
    ttls.add(item.ttl.count());
    waiter_ttls.add(item.waiter_ttl.count());
  }
  return {statements_.renew,
          {param_of(now), names.param(), ids.param(), seqs.param(), ttls.param(),
           waiter_ttls.param()}};
}

sql::Request PostgresDialect::look(const std::vector<Waiter>& waiters) const {
  Array names, ids;
  for (const auto& [id, name] : waiters) {
    names.add_bytes(name);
    ids.add_id(id);
  }
  return {statements_.look, {names.param(), ids.param()}};
}

sql::Request PostgresDialect::read(const std::vector<std::string>& names, sql::Now now) const {
  Array all;
  for (const std::string& name : names) all.add_bytes(name);
  return {statements_.read, {param_of(now), all.param()}};
}

sql::Request PostgresDialect::list(const std::string& from,
                                   const std::optional<std::string>& below, std::size_t limit,
                                   sql::Now now) const {
  return {statements_.list,
          {param_of(now), bytea_of(from), below ? Param(bytea_of(*below)) : std::nullopt,
           std::to_string(limit)}};
}

sql::Request PostgresDialect::value(const std::string& name) const {
  return {statements_.value, {bytea_of(name)}};
}

sql::Request PostgresDialect::write(const sql::Writes& writes) {
  const WriteArrays arrays(writes);
  std::string& text = write_texts_[arrays.shape()];
  if (text.empty()) text = arrays.text(statements_);
  return {text, arrays.params()};
}

sql::Failure failure_of(const sql::Answer& answer) {
  using sql::Failure;
  const auto is = [&](auto... codes) { return ((answer.code == codes) || ...); };
  if (answer.fate == sql::Fate::kNotSent) {
    const std::string& why = answer.message;
    // The right server may come back there, so that waiters keep waiting.
    if (is_of_another_server(why)) return Failure::kOther;
    // The server's errors have codes; those of libpq, and of some poolers, have only words.
    const bool refused = is("28000", "28P01", "42501") || contains(why, "authentication") ||
                         contains(why, "certificate");
    if (refused) return Failure::kPermission;
    return advice_on(answer.code, why).empty() ? Failure::kOther : Failure::kSettings;
  }
  // Deadlocks, serialization failures, lock timeouts, cancelled statements, races, and forgotten
  // plans.
  if (is("40001", "40P01", "55P03", "57014", "22012", "26000", "42P05", "0A000")) {
    return Failure::kChangedNothing;
  }
  if (is("42501")) return Failure::kPermission;
  if (is("42P01", "3F000")) return Failure::kNoTables;
  if (is("42703")) return Failure::kForeignTables;  // No such column.
  if (is("25006")) return Failure::kReadOnly;
  return Failure::kOther;
}

Result<sql::Dialect::FoundTables> PostgresDialect::find_tables(const Ask& ask) const {
  const auto state = ask({statements_.check});
  if (!state) return state.error();
  if ((*state)->text(0, 0) == "t") {
    return Error(Errc::kUnavailable, address_ +
                                         ": this server only reads (a standby?): connect to the "
                                         "primary, or name all servers in the URL");
  }
  FoundTables found{.complete = (*state)->text(0, 2) == "t"};
  if ((*state)->text(0, 1) != "t") return found;
  const auto format = ask({statements_.of("SELECT format FROM @meta")});
  if (!format) return format.error();
  if ((*format)->size() > 0) found.format = (*format)->number(0, 0);
  return found;
}

std::string PostgresDialect::script() const {
  return "-- The tables of Holdfast's postgres store, format " + std::to_string(kFormat) +
         ", in " + tables() +
         ".\n-- Run this in the database that the store's URL names. It may run twice." +
         statements_.create + ";\n";
}

Guarantees PostgresDialect::guarantees() const { return postgres::guarantees(); }

}  // namespace holdfast::stores::postgres
