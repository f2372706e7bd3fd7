#include "src/stores/postgres/writes.h"

namespace holdfast::stores::postgres {
namespace {

// Each part is a common table expression over its arrays; `#` begins the numbers of its parameters.
// A lock that was not there is inserted, and otherwise updated if it is as it was read. The
// rows of several locks are locked by name first, so that nobody waits in a circle.
constexpr char kLocks[] = R"sql(
WITH n AS MATERIALIZED (SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[],
  $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::smallint[],
  $11::bigint[], $12::bytea[], $13::smallint[], $14::bigint[], $15::bigint[], $16::bigint[],
  $17::bigint[], $18::bigint[], $19::bigint[], $20::bytea[])
  AS n(name, expected, version, refuse_until, token, at, due, tickets, next_ord, kind, capacity,
    solo_id, solo_mode, solo_permits, solo_seq, solo_end, solo_lease, solo_ttl, solo_waiter_ttl,
    owner)),
#Omade AS (INSERT INTO @locks SELECT name, version, refuse_until, token, at, due, tickets, next_ord,
  kind, capacity, solo_id, solo_mode, solo_permits, solo_seq, solo_end, solo_lease, solo_ttl,
  solo_waiter_ttl, owner FROM n WHERE expected = 0 ORDER BY name ON CONFLICT DO NOTHING
  RETURNING name),
changed AS (UPDATE @locks l SET version = n.version, refuse_until = n.refuse_until,
  token = n.token, at = n.at, due = n.due, tickets = n.tickets, next_ord = n.next_ord,
  kind = n.kind, capacity = n.capacity, solo_id = n.solo_id, solo_mode = n.solo_mode,
  solo_permits = n.solo_permits, solo_seq = n.solo_seq, solo_end = n.solo_end,
  solo_lease = n.solo_lease, solo_ttl = n.solo_ttl, solo_waiter_ttl = n.solo_waiter_ttl,
  owner = n.owner
  FROM n#K WHERE n.expected > 0 AND l.name = n.name AND l.version = n.expected RETURNING l.name),
won AS MATERIALIZED (SELECT name FROM made UNION ALL SELECT name FROM changed))sql";

constexpr char kOrdered[] = R"sql(k AS MATERIALIZED (SELECT l.name FROM @locks l
  WHERE l.name IN (SELECT name FROM n) ORDER BY l.name FOR UPDATE OF l),
)sql";

constexpr char kPutTickets[] = R"sql(,
put AS (INSERT INTO @tickets SELECT * FROM unnest($#0::bytea[], $#1::bigint[], $#2::bytea[],
  $#3::smallint[], $#4::smallint[], $#5::bigint[], $#6::bytea[], $#7::bigint[], $#8::bigint[],
  $#9::bigint[], $#a::bigint[], $#b::bigint[], $#c::bigint[], $#d::bytea[]) AS t(lock)
  WHERE t.lock IN (SELECT name FROM won)
  ON CONFLICT (lock, id) DO UPDATE SET ord = excluded.ord, flags = excluded.flags,
  mode = excluded.mode, permits = excluded.permits, upgrade_of = excluded.upgrade_of,
  token = excluded.token, seq = excluded.seq, lease_end = excluded.lease_end,
  lease = excluded.lease, ttl = excluded.ttl, waiter_ttl = excluded.waiter_ttl,
  owner = excluded.owner))sql";

constexpr char kDropped[] = R"sql(,
gone AS (DELETE FROM @tickets t USING unnest($#0::bytea[], $#1::bytea[]) AS d(lock, id)
  WHERE t.lock = d.lock AND t.id = d.id AND d.lock IN (SELECT name FROM won)))sql";

constexpr char kExtras[] = R"sql(,
beside AS (INSERT INTO @extras AS e SELECT * FROM unnest($#0::bytea[], $#1::bytea[],
  $#2::bigint[], $#3::bytea[]) AS x(name) WHERE x.name IN (SELECT name FROM won)
  ON CONFLICT (name) DO UPDATE SET value = coalesce(excluded.value, e.value),
  broken_token = coalesce(excluded.broken_token, e.broken_token),
  broken_by = coalesce(excluded.broken_by, e.broken_by)))sql";

// Tombstones that are over go; the others stay or come.
constexpr char kStones[] = R"sql(,
over AS (DELETE FROM @tombstones d WHERE d.lock = ANY($#0::bytea[])
  AND d.lock IN (SELECT name FROM won) AND (d.lock, d.id) NOT IN
  (SELECT * FROM unnest($#1::bytea[], $#2::bytea[]))),
stones AS (INSERT INTO @tombstones SELECT * FROM unnest($#1::bytea[], $#2::bytea[],
  $#3::bigint[]) AS s(lock) WHERE s.lock IN (SELECT name FROM won)
  ON CONFLICT (lock, id) DO UPDATE SET until = excluded.until))sql";

constexpr char kTold[] = R"sql(,
told AS MATERIALIZED (SELECT count(pg_notify(channel, payload)) AS n
  FROM unnest($#0::bytea[], $#1::text[], $#2::text[]) AS t(lock, channel, payload)
  WHERE t.lock IN (SELECT name FROM won)))sql";

// Where only some of several locks were as they had been read, the division ends the statement and
// so takes everything back.
constexpr char kEnd[] = R"sql(
SELECT CASE WHEN k = 0 OR k = cardinality($1::bytea[]) THEN k ELSE k / (k - k) END
FROM (SELECT count(*) AS k FROM won) c
WHERE set_config('synchronous_commit', 'on', true) IS NOT NULL)sql";
constexpr char kEndApart[] = R"sql(
SELECT name FROM won WHERE set_config('synchronous_commit', 'on', true) IS NOT NULL)sql";
constexpr char kEndTold[] = " AND (SELECT n FROM told) >= 0";

std::string replaced(std::string text, std::string_view mark, std::string_view by) {
  return text.replace(text.find(mark), mark.size(), by);
}

std::size_t offset_of(char digit) {
  return static_cast<std::size_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

void append(std::string& text, std::string_view part, std::size_t& first, std::size_t count) {
  while (!part.empty()) {
    const std::size_t at = part.find('#');
    text += part.substr(0, at);
    if (at == part.npos) break;
    text += std::to_string(first + offset_of(part[at + 1]));
    part.remove_prefix(at + 2);
  }
  first += count;
}

}  // namespace

WriteArrays::WriteArrays(const sql::Writes& writes) : apart_(writes.apart) {
  for (const auto& lock : writes.locks) add_lock(lock);
  for (const auto& ticket : writes.tickets) add_ticket(ticket);
  for (const auto& dropped : writes.dropped) {
    dropped_.lock.add_bytes(dropped.lock);
    dropped_.id.add_id(dropped.id);
  }
  for (const auto& extra : writes.extras) add_extra(extra);
  for (const auto& lock : writes.tombstones) {
    stones_.names.add_bytes(lock.lock);
    for (const machine::TombstoneImage& stone : lock.stones) {
      stones_.lock.add_bytes(lock.lock);
      stones_.id.add_id(stone.id);
      stones_.until.add(stone.until.time_since_epoch().count());
    }
  }
  for (const auto& told : writes.notifications) {
    told_.lock.add_bytes(told.lock);
    told_.channel.add_text(told.channel);
    told_.payload.add_text(told.payload);
  }
}

void WriteArrays::add_lock(const sql::Writes::Lock& lock) {
  const rows::LockRow& row = lock.row;
  locks_.name.add_bytes(row.name);
  locks_.expected.add(lock.expected);
  locks_.version.add(lock.version);
  locks_.refuse_until.add(lock.refuse_until);
  locks_.token.add(row.token);
  locks_.at.add(row.at);
  locks_.due.add(row.due);
  locks_.tickets.add(row.tickets);
  locks_.next_order.add(row.next_order);
  locks_.kind.add(row.kind);
  locks_.capacity.add(row.capacity);
  if (row.solo) {
    locks_.solo_id.add_id(row.solo->id);
    locks_.solo_mode.add(row.solo->mode);
    locks_.solo_permits.add(row.solo->permits);
    locks_.solo_seq.add(row.solo->seq);
    locks_.solo_end.add(row.solo->lease_end);
    locks_.solo_lease.add(row.solo->lease);
    locks_.solo_ttl.add(row.solo->ttl);
    locks_.solo_waiter_ttl.add(row.solo->waiter_ttl);
    locks_.owner.add_bytes(row.solo->owner);
  } else {
    for (Array* column : {&locks_.solo_id, &locks_.solo_mode, &locks_.solo_permits,
                          &locks_.solo_seq, &locks_.solo_end, &locks_.solo_lease, &locks_.solo_ttl,
                          &locks_.solo_waiter_ttl, &locks_.owner}) {
      column->add_null();
    }
  }
}

void WriteArrays::add_extra(const sql::Writes::Extra& extra) {
  extras_.name.add_bytes(extra.name);
  extra.value ? extras_.value.add_bytes(*extra.value) : extras_.value.add_null();
  if (extra.broken) {
    extras_.broken_token.add(extra.broken->token);
    extras_.broken_by.add_bytes(extra.broken->by);
  } else {
    extras_.broken_token.add_null();
    extras_.broken_by.add_null();
  }
}

void WriteArrays::add_ticket(const sql::Writes::Ticket& ticket) {
  const rows::TicketRow& row = ticket.row;
  tickets_.lock.add_bytes(ticket.lock);
  tickets_.order.add(row.order);
  tickets_.id.add_id(row.id);
  tickets_.flags.add(row.flags);
  tickets_.mode.add(row.mode);
  tickets_.permits.add(row.permits);
  tickets_.upgrade_of.add_id(row.upgrade_of);
  tickets_.token.add(row.token);
  tickets_.seq.add(row.seq);
  tickets_.lease_end.add(row.lease_end);
  tickets_.lease.add(row.lease);
  tickets_.ttl.add(row.ttl);
  tickets_.waiter_ttl.add(row.waiter_ttl);
  tickets_.owner.add_bytes(row.owner);
}

unsigned WriteArrays::shape() const {
  unsigned shape = (locks_.name.size() > 1 ? 1 : 0) + (apart_ ? 2 : 0);
  for (const Array* key :
       {&tickets_.lock, &dropped_.lock, &extras_.name, &stones_.names, &told_.channel}) {
    shape = 2 * shape + (key->size() > 0 ? 1 : 0);
  }
  return shape;
}

std::string WriteArrays::text(const Statements& statements) const {
  const bool several = locks_.name.size() > 1;
  std::string text = replaced(kLocks, "#O", several ? kOrdered : "");
  text = replaced(text, "#K", several ? " JOIN k ON k.name = n.name" : "");
  std::size_t first = 21;
  if (tickets_.lock.size() > 0) append(text, kPutTickets, first, 14);
  if (dropped_.lock.size() > 0) append(text, kDropped, first, 2);
  if (extras_.name.size() > 0) append(text, kExtras, first, 4);
  if (stones_.names.size() > 0) append(text, kStones, first, 4);
  if (told_.channel.size() > 0) append(text, kTold, first, 3);
  text += apart_ ? kEndApart : kEnd;
  if (told_.channel.size() > 0) text += kEndTold;
  return statements.of(text);
}

std::vector<const Array*> WriteArrays::parts() const {
  std::vector<const Array*> all = {&locks_.name,
                                   &locks_.expected,
                                   &locks_.version,
                                   &locks_.refuse_until,
                                   &locks_.token,
                                   &locks_.at,
                                   &locks_.due,
                                   &locks_.tickets,
                                   &locks_.next_order,
                                   &locks_.kind,
                                   &locks_.capacity,
                                   &locks_.solo_id,
                                   &locks_.solo_mode,
                                   &locks_.solo_permits,
                                   &locks_.solo_seq,
                                   &locks_.solo_end,
                                   &locks_.solo_lease,
                                   &locks_.solo_ttl,
                                   &locks_.solo_waiter_ttl,
                                   &locks_.owner};
  const auto add = [&all](const Array& key, std::initializer_list<const Array*> arrays) {
    if (key.size() > 0) all.insert(all.end(), arrays);
  };
  add(tickets_.lock,
      {&tickets_.lock, &tickets_.order, &tickets_.id, &tickets_.flags, &tickets_.mode,
       &tickets_.permits, &tickets_.upgrade_of, &tickets_.token, &tickets_.seq, &tickets_.lease_end,
       &tickets_.lease, &tickets_.ttl, &tickets_.waiter_ttl, &tickets_.owner});
  add(dropped_.lock, {&dropped_.lock, &dropped_.id});
  add(extras_.name, {&extras_.name, &extras_.value, &extras_.broken_token, &extras_.broken_by});
  add(stones_.names, {&stones_.names, &stones_.lock, &stones_.id, &stones_.until});
  add(told_.channel, {&told_.lock, &told_.channel, &told_.payload});
  return all;
}

Params WriteArrays::params() const {
  Params params;
  for (const Array* part : parts()) params.push_back(part->param());
  return params;
}

}  // namespace holdfast::stores::postgres
