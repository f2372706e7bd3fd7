-- The tables of Holdfast's postgres store, format 1, in the schema holdfast.
-- Run this in the database that the store's URL names. It may run twice.
DO $do$ BEGIN
  PERFORM pg_advisory_xact_lock(5217498023871004532);
  IF to_regnamespace('"holdfast"') IS NULL THEN CREATE SCHEMA "holdfast"; END IF;  -- It asks for rights first.
  CREATE TABLE IF NOT EXISTS "holdfast".meta(id int PRIMARY KEY CHECK (id = 1), format int NOT NULL);
  CREATE TABLE IF NOT EXISTS "holdfast".locks(
    name bytea PRIMARY KEY, version bigint NOT NULL, refuse_until bigint NOT NULL,
    token bigint NOT NULL, at bigint NOT NULL, due bigint NOT NULL, tickets bigint NOT NULL,
    next_ord bigint NOT NULL, kind smallint NOT NULL, capacity bigint NOT NULL,
    solo_id bytea, solo_mode smallint, solo_permits bigint, solo_seq bigint, solo_end bigint,
    solo_lease bigint, solo_ttl bigint, solo_waiter_ttl bigint, owner bytea)
    WITH (fillfactor = 50);
  CREATE TABLE IF NOT EXISTS "holdfast".tickets(
    lock bytea NOT NULL, ord bigint NOT NULL, id bytea NOT NULL, flags smallint NOT NULL,
    mode smallint NOT NULL, permits bigint NOT NULL, upgrade_of bytea, token bigint NOT NULL,
    seq bigint NOT NULL, lease_end bigint NOT NULL, lease bigint NOT NULL, ttl bigint NOT NULL,
    waiter_ttl bigint NOT NULL, owner bytea, PRIMARY KEY (lock, ord), UNIQUE (lock, id))
    WITH (fillfactor = 50);
  CREATE TABLE IF NOT EXISTS "holdfast".tombstones(
    lock bytea NOT NULL, id bytea NOT NULL, until bigint NOT NULL, PRIMARY KEY (lock, id));
  CREATE TABLE IF NOT EXISTS "holdfast".extras(
    name bytea PRIMARY KEY, value bytea, broken_token bigint, broken_by bytea);
  CREATE TABLE IF NOT EXISTS "holdfast".records(
    key bytea PRIMARY KEY, version bigint NOT NULL, text bytea NOT NULL);
  DELETE FROM "holdfast".tickets t WHERE NOT EXISTS (SELECT FROM "holdfast".locks l WHERE l.name = t.lock);
  INSERT INTO "holdfast".meta VALUES (1, 1) ON CONFLICT DO NOTHING;
END $do$;
