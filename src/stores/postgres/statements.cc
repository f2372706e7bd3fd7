#include "src/stores/postgres/statements.h"

namespace holdfast::stores::postgres {
namespace {

// One statement, since a pooler may give each statement another server process. Clients that start
// together take turns. Tickets of a table of locks that somebody has dropped belong to nobody.
constexpr char kCreate[] = R"sql(
DO $do$ BEGIN
  PERFORM pg_advisory_xact_lock(5217498023871004532);
  IF to_regnamespace('@@') IS NULL THEN CREATE SCHEMA @@; END IF;  -- It asks for rights first.
  CREATE TABLE IF NOT EXISTS @meta(id int PRIMARY KEY CHECK (id = 1), format int NOT NULL);
  CREATE TABLE IF NOT EXISTS @locks(
    name bytea PRIMARY KEY, version bigint NOT NULL, refuse_until bigint NOT NULL,
    token bigint NOT NULL, at bigint NOT NULL, due bigint NOT NULL, tickets bigint NOT NULL,
    next_ord bigint NOT NULL, kind smallint NOT NULL, capacity bigint NOT NULL,
    solo_id bytea, solo_mode smallint, solo_permits bigint, solo_seq bigint, solo_end bigint,
    solo_lease bigint, solo_ttl bigint, solo_waiter_ttl bigint, owner bytea)
    WITH (fillfactor = 50);
  CREATE TABLE IF NOT EXISTS @tickets(
    lock bytea NOT NULL, ord bigint NOT NULL, id bytea NOT NULL, flags smallint NOT NULL,
    mode smallint NOT NULL, permits bigint NOT NULL, upgrade_of bytea, token bigint NOT NULL,
    seq bigint NOT NULL, lease_end bigint NOT NULL, lease bigint NOT NULL, ttl bigint NOT NULL,
    waiter_ttl bigint NOT NULL, owner bytea, PRIMARY KEY (lock, ord), UNIQUE (lock, id))
    WITH (fillfactor = 50);
  CREATE TABLE IF NOT EXISTS @tombstones(
    lock bytea NOT NULL, id bytea NOT NULL, until bigint NOT NULL, PRIMARY KEY (lock, id));
  CREATE TABLE IF NOT EXISTS @extras(
    name bytea PRIMARY KEY, value bytea, broken_token bigint, broken_by bytea);
  CREATE TABLE IF NOT EXISTS @records(
    key bytea PRIMARY KEY, version bigint NOT NULL, text bytea NOT NULL);
  DELETE FROM @tickets t WHERE NOT EXISTS (SELECT FROM @locks l WHERE l.name = t.lock);
  INSERT INTO @meta VALUES (1, 1) ON CONFLICT DO NOTHING;
END $do$)sql";

// `@taken(N)`: the row of a lock, with the new holder; `@free(N)`: nobody else has it. The server
// prepares each expression anew for each execution, so one comparison does for three.
constexpr std::string_view kTaken = R"sql(
  version = l.version + 1, token = greatest(l.token + 1, @now(#)),
  at = greatest(l.at, @now(#)), kind = excluded.kind, capacity = excluded.capacity,
  solo_id = excluded.solo_id, solo_mode = excluded.solo_mode,
  solo_permits = excluded.solo_permits, solo_seq = 0,
  solo_end = @now(#) + excluded.solo_lease, solo_lease = excluded.solo_lease,
  solo_ttl = excluded.solo_ttl, solo_waiter_ttl = excluded.solo_waiter_ttl, owner = excluded.owner
)sql";
constexpr std::string_view kFree = R"sql(
  l.tickets = 0 AND l.solo_id IS DISTINCT FROM excluded.solo_id
  AND greatest(l.at, l.refuse_until, CASE WHEN l.solo_id IS NOT NULL
    THEN coalesce(l.solo_end, 9223372036854775807) END) <= @now(#))sql";

constexpr char kGrant[] = R"sql(
INSERT INTO @locks AS l (name, version, refuse_until, token, at, due, tickets, next_ord, kind,
  capacity, solo_id, solo_mode, solo_permits, solo_seq, solo_end, solo_lease, solo_ttl,
  solo_waiter_ttl, owner)
SELECT $1::bytea, n, 0, n, n, 9223372036854775807, 0, 2, $6::smallint, $7::bigint, $3::bytea,
  $4::smallint, $5::bigint, 0, n + $8::bigint, $8::bigint, $8::bigint, $9::bigint, $10::bytea
FROM (SELECT @now(2) AS n) c WHERE set_config('synchronous_commit', 'on', true) IS NOT NULL
ON CONFLICT (name) DO UPDATE SET @taken(2) WHERE @free(2)
RETURNING token)sql";

// An INSERT that meets a row locks it first, and writes that down, before it updates it.
constexpr char kRegrant[] = R"sql(
UPDATE @locks l SET @taken(2)
FROM (SELECT $6::smallint AS kind, $7::bigint AS capacity, $3::bytea AS solo_id,
  $4::smallint AS solo_mode, $5::bigint AS solo_permits, $8::bigint AS solo_lease,
  $8::bigint AS solo_ttl, $9::bigint AS solo_waiter_ttl, $10::bytea AS owner) excluded
WHERE l.name = $1::bytea AND @free(2)
  AND set_config('synchronous_commit', 'on', true) IS NOT NULL
RETURNING token)sql";

// The number of changed rows is the answer.
constexpr char kRelease[] = R"sql(
UPDATE @locks SET solo_id = NULL, at = greatest(at, @now(2)), version = version + 1
WHERE name = $1::bytea AND solo_id = $3::bytea AND solo_end > @now(2) AND tickets = 0
  AND at <= @now(2) AND set_config('synchronous_commit', 'on', true) IS NOT NULL)sql";

// The machine's answer where the queue begins with an exclusive holder and an exclusive waiter, as
// long as nothing is due. `version` makes a step of it: if somebody else was faster, it is left to
// the machine. The columns of an inline holder count only with `solo_id`.
constexpr char kHandOn[] = R"sql(
WITH c AS MATERIALIZED (SELECT @now(2) AS n, version, tickets,
  set_config('synchronous_commit', 'on', true) FROM @locks WHERE name = $1::bytea),
h AS MATERIALIZED (SELECT t.id, t.flags, t.mode, t.upgrade_of, @wake AS wake
  FROM @tickets t WHERE t.lock = $1::bytea AND (SELECT tickets FROM c) > 1
  ORDER BY t.ord LIMIT 1),
w AS MATERIALIZED (SELECT t.*, @wake AS wake
  FROM @tickets t WHERE t.lock = $1::bytea AND (SELECT tickets FROM c) > 1
  ORDER BY t.ord LIMIT 1 OFFSET 1),
moved AS (
  UPDATE @locks l SET version = l.version + 1, at = greatest(l.at, c.n),
    token = CASE WHEN w.id IS NULL THEN l.token ELSE greatest(l.token + 1, c.n) END,
    tickets = CASE WHEN l.tickets > 2 THEN l.tickets - 1 ELSE 0 END,
    solo_id = CASE WHEN l.tickets = 2 THEN w.id END, solo_mode = w.mode,
    solo_permits = w.permits, solo_seq = w.seq, solo_end = w.lease_end, solo_lease = w.lease,
    solo_ttl = w.ttl, solo_waiter_ttl = w.waiter_ttl, owner = w.owner
  FROM c LEFT JOIN h ON true LEFT JOIN w ON true
  WHERE l.name = $1::bytea AND l.version = c.version AND l.at <= c.n
    AND (l.tickets = 0 AND l.solo_id = $3::bytea AND l.solo_end > c.n
      OR l.tickets > 1 AND l.kind = 0 AND l.due > c.n AND h.id = $3::bytea AND h.flags = 1
        AND h.mode = 0 AND h.upgrade_of IS NULL AND h.wake = $4::text
        AND w.flags = 0 AND w.mode = 0 AND w.upgrade_of IS NULL AND w.wake IS NOT NULL)
  RETURNING l.tickets, w.id, l.token, w.seq, w.lease, w.wake),
gone AS (DELETE FROM @tickets t USING moved m WHERE t.lock = $1::bytea
  AND t.id = ANY(ARRAY[$3::bytea, CASE WHEN m.tickets = 0 THEN m.id END])),
held AS (UPDATE @tickets t SET flags = 1, token = m.token FROM moved m
  WHERE m.tickets > 0 AND t.lock = $1::bytea AND t.id = m.id)
SELECT * FROM moved m WHERE CASE WHEN m.wake <> '' AND m.wake <> $4::text
  THEN pg_notify(m.wake, concat_ws(' ', encode(m.id, 'hex'), m.token, m.seq, m.lease)) IS NOT NULL
  ELSE true END)sql";

// Where an owner's client listens, as src/rows/owner_codec.h has it; NULL: it is no such owner.
constexpr std::string_view kWake = R"sql(
  CASE WHEN length(t.owner) > 2 AND get_byte(t.owner, 0) = 1 THEN encode(substr(t.owner, 4,
    get_byte(t.owner, 1) + 256 * get_byte(t.owner, 2)), 'escape') END)sql";

constexpr char kMany[] = R"sql(
WITH c AS MATERIALIZED (SELECT @now(1) AS n, set_config('synchronous_commit', 'on', true) AS s),
i AS MATERIALIZED (SELECT * FROM unnest($2::bytea[], $3::bytea[], $4::smallint[], $5::bigint[],
  $6::smallint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[])
  AS i(name, id, mode, permits, kind, capacity, ttl, waiter_ttl, owner)),
k AS MATERIALIZED (SELECT l.name FROM @locks l WHERE l.name IN (SELECT name FROM i)
  ORDER BY l.name FOR UPDATE OF l),
ready AS MATERIALIZED (SELECT count(*) AS n FROM k, c WHERE c.s IS NOT NULL),
freed AS (UPDATE @locks l SET solo_id = NULL, at = greatest(l.at, @now(1)),
  version = l.version + 1 FROM i, ready WHERE i.mode IS NULL AND l.name = i.name
    AND l.solo_id = i.id AND l.solo_end > @now(1) AND l.tickets = 0 AND l.at <= @now(1)
  RETURNING l.name, l.token),
granted AS (INSERT INTO @locks AS l (name, version, refuse_until, token, at, due, tickets,
  next_ord, kind, capacity, solo_id, solo_mode, solo_permits, solo_seq, solo_end, solo_lease,
  solo_ttl, solo_waiter_ttl, owner)
SELECT i.name, c.n, 0, c.n, c.n, 9223372036854775807, 0, 2, i.kind, i.capacity, i.id, i.mode,
  i.permits, 0, c.n + i.ttl, i.ttl, i.ttl, i.waiter_ttl, i.owner
FROM i, c, ready WHERE i.mode IS NOT NULL ORDER BY i.name
ON CONFLICT (name) DO UPDATE SET @taken(1) WHERE @free(1)
RETURNING l.name, l.token)
SELECT name, token FROM freed UNION ALL SELECT name, token FROM granted)sql";

// The rows of `locks` are locked first and by name, so that batches do not wait for each other in a
// circle. `k` has the items with them: items that were joined with `k` once more would cost the
// square of their number. A ticket that waits for an upgrade stands ahead of all others.
constexpr char kRenew[] = R"sql(
WITH c AS MATERIALIZED (SELECT @now(1) AS n, set_config('synchronous_commit', 'on', true)),
k AS MATERIALIZED (SELECT i.*, l.due, l.at, l.tickets FROM unnest($2::bytea[], $3::bytea[],
  $4::bigint[], $5::bigint[], $6::bigint[]) WITH ORDINALITY AS i(name, id, seq, ttl, waiter_ttl, nr)
  JOIN @locks l ON l.name = i.name ORDER BY l.name FOR UPDATE OF l),
solo AS (
  UPDATE @locks l SET solo_end = c.n + k.ttl, solo_lease = k.ttl, solo_seq = k.seq,
    at = greatest(l.at, c.n), version = l.version + 1
  FROM k, c WHERE l.name = k.name AND l.solo_id = k.id AND l.tickets = 0
    AND l.solo_end > c.n AND l.at <= c.n AND l.solo_seq < k.seq AND l.solo_end < c.n + k.ttl
  RETURNING k.nr, l.token),
beat AS (
  UPDATE @tickets t SET seq = k.seq,
    lease_end = c.n + CASE t.flags WHEN 1 THEN k.ttl ELSE k.waiter_ttl END,
    lease = CASE t.flags WHEN 1 THEN k.ttl ELSE k.waiter_ttl END
  FROM k, c WHERE k.due > c.n AND k.at <= c.n AND k.tickets > 0 AND t.lock = k.name
    AND t.id = k.id AND t.flags < 2 AND t.seq < k.seq
    AND t.lease_end > c.n
    AND t.lease_end < c.n + CASE t.flags WHEN 1 THEN k.ttl ELSE k.waiter_ttl END
  RETURNING k.nr, t.flags, t.token, t.lock, t.ord,
    t.flags = 1 OR t.upgrade_of IS NOT NULL AS first),
bump AS (
  UPDATE @locks l SET version = l.version + 1 WHERE l.name IN (SELECT lock FROM beat))
SELECT nr, 1, token, 0, NULL::bigint FROM solo
UNION ALL SELECT b.nr, b.flags, b.token,
  CASE WHEN b.first THEN 0 ELSE (SELECT count(*) FROM (SELECT 1 FROM @tickets w
    WHERE w.lock = b.lock AND w.ord < b.ord AND w.flags & 1 = 0 LIMIT 65) a) END,
  CASE b.flags WHEN 1 THEN NULL ELSE (SELECT min(h.lease_end) FROM (SELECT flags, lease_end
    FROM @tickets x WHERE x.lock = b.lock ORDER BY x.ord LIMIT 64) h WHERE h.flags = 1) - c.n END
FROM beat b, c)sql";

// Behind a pooler waiters ask more often when few are ahead. A client that waits for many locks
// asks without looking at their queues.
constexpr char kLook[] = R"sql(
SELECT i.id, l.token, l.solo_seq, l.solo_lease
FROM unnest($1::bytea[], $2::bytea[]) AS i(name, id) JOIN @locks l ON l.name = i.name
WHERE l.solo_id = i.id
UNION ALL SELECT i.id, t.token, t.seq, t.lease
FROM unnest($1::bytea[], $2::bytea[]) AS i(name, id)
  JOIN @tickets t ON t.lock = i.name AND t.id = i.id WHERE t.flags = 1
UNION ALL SELECT f.id, NULL, f.ahead, NULL
FROM (SELECT DISTINCT n.name FROM unnest($1::bytea[]) AS n(name)
  WHERE (SELECT count(DISTINCT c.name) FROM unnest($1::bytea[]) AS c(name)) <= 4) q
CROSS JOIN LATERAL (SELECT w.id, row_number() OVER (ORDER BY w.ord) - 1 AS ahead
  FROM (SELECT t.id, t.ord FROM @tickets t WHERE t.lock = q.name AND t.flags = 0
    ORDER BY t.ord LIMIT 25) w) f)sql";

constexpr char kColumns[] = R"sql(
SELECT c.n, q.name, l.version, l.token, l.at, l.due, l.tickets, l.next_ord, l.kind, l.capacity,
  l.solo_id, l.solo_mode, l.solo_permits, l.solo_seq, l.solo_end, l.solo_lease, l.solo_ttl,
  l.solo_waiter_ttl, l.owner, e.value, e.broken_token, e.broken_by,
  CASE WHEN l.refuse_until > 0 THEN (SELECT string_agg(encode(d.id, 'hex') || d.until, ' ')
    FROM @tombstones d WHERE d.lock = q.name) END,
  t.ord, t.id, t.flags, t.mode, t.permits, t.upgrade_of, t.token, t.seq, t.lease_end, t.lease,
  t.ttl, t.waiter_ttl, t.owner
FROM (SELECT @now(1) AS n) c CROSS JOIN )sql";

constexpr char kNames[] = "unnest($2::bytea[]) AS q(name)";
constexpr char kUsedNames[] = R"sql((SELECT name FROM @locks
  WHERE name >= $2::bytea AND ($3::bytea IS NULL OR name < $3::bytea)
    AND (tickets > 0 OR (solo_id IS NOT NULL AND solo_end > @now(1)))
  ORDER BY name LIMIT $4::bigint) q)sql";

constexpr char kJoins[] = R"sql(
LEFT JOIN @locks l ON l.name = q.name LEFT JOIN @extras e ON e.name = q.name
LEFT JOIN @tickets t ON t.lock = q.name AND l.tickets > 0
ORDER BY q.name, t.ord)sql";

constexpr char kCheck[] = R"sql(
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
  to_regclass('@meta') IS NOT NULL,
  to_regclass('@locks') IS NOT NULL AND to_regclass('@tickets') IS NOT NULL
    AND to_regclass('@tombstones') IS NOT NULL AND to_regclass('@extras') IS NOT NULL
    AND to_regclass('@records') IS NOT NULL)sql";

std::string clock_of(std::string_view parameter) {
  return "coalesce($" + std::string(parameter) +
         "::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)";
}

std::string columns_of(std::string_view names) {
  std::string text(kColumns);
  text += names;
  text += kJoins;
  return text;
}

std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    text += c;
    if (c == '"') text += c;
  }
  return text + '"';
}

}  // namespace

Statements::Statements(std::string_view schema)
    : schema_(quoted(schema)),
      grant(of(kGrant)),
      regrant(of(kRegrant)),
      release(of(kRelease)),
      hand_on(of(kHandOn)),
      many(of(kMany)),
      renew(of(kRenew)),
      look(of(kLook)),
      read(of(columns_of(kNames))),
      list(of(columns_of(kUsedNames))),
      value(of("SELECT value FROM @extras WHERE name = $1::bytea")),
      create(of(kCreate)),
      check(of(kCheck)) {}

std::string Statements::of(std::string_view pattern) const {
  std::string text;
  while (!pattern.empty()) {
    const std::size_t at = pattern.find('@');
    text += pattern.substr(0, at);
    if (at == pattern.npos) break;
    pattern.remove_prefix(at + 1);
    if (pattern.starts_with("now(")) {
      const std::size_t end = pattern.find(')');
      text += clock_of(pattern.substr(4, end - 4));
      pattern.remove_prefix(end + 1);
    } else if (pattern.starts_with("taken(") || pattern.starts_with("free(")) {
      const std::size_t end = pattern.find(')');
      std::string part(pattern.starts_with("free") ? kFree : kTaken);
      for (std::size_t mark = 0; (mark = part.find('#', mark)) != part.npos;) {
        part[mark] = pattern[end - 1];
      }
      text += of(part);
      pattern.remove_prefix(end + 1);
    } else if (pattern.starts_with("wake")) {
      text += kWake;
      pattern.remove_prefix(4);
    } else if (pattern.starts_with('@')) {  // The schema alone.
      text += schema_;
      pattern.remove_prefix(1);
    } else {
      text += schema_ + '.';
    }
  }
  return text;
}

}  // namespace holdfast::stores::postgres
