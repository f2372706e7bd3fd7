-- The tables of Holdfast's mysql store, format 1. Their names begin with holdfast_.
-- The database must exist. This may run twice.
USE `app`;
CREATE TABLE IF NOT EXISTS `holdfast_meta` (id INT PRIMARY KEY, format INT NOT NULL) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS `holdfast_locks` (
  name VARBINARY(512) PRIMARY KEY, version BIGINT NOT NULL, refuse_until BIGINT NOT NULL,
  token BIGINT NOT NULL, at BIGINT NOT NULL, due BIGINT NOT NULL, tickets BIGINT NOT NULL,
  next_ord BIGINT NOT NULL, kind SMALLINT NOT NULL, capacity BIGINT NOT NULL,
  solo_id BINARY(16), solo_mode SMALLINT, solo_permits BIGINT, solo_seq BIGINT, solo_end BIGINT,
  solo_lease BIGINT, solo_ttl BIGINT, solo_waiter_ttl BIGINT, owner BLOB, stamp BIGINT NOT NULL)
  ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS `holdfast_tickets` (
  name VARBINARY(512) NOT NULL, ord BIGINT NOT NULL, id BINARY(16) NOT NULL,
  flags SMALLINT NOT NULL, mode SMALLINT NOT NULL, permits BIGINT NOT NULL,
  upgrade_of BINARY(16), token BIGINT NOT NULL, seq BIGINT NOT NULL, lease_end BIGINT NOT NULL,
  lease BIGINT NOT NULL, ttl BIGINT NOT NULL, waiter_ttl BIGINT NOT NULL, owner BLOB,
  PRIMARY KEY (name, id), KEY by_order (name, flags, ord)) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS `holdfast_tombstones` (
  name VARBINARY(512) NOT NULL, id BINARY(16) NOT NULL, ends BIGINT NOT NULL,
  PRIMARY KEY (name, id)) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS `holdfast_extras` (
  name VARBINARY(512) PRIMARY KEY, value BLOB, broken_token BIGINT, broken_by BLOB)
  ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS `holdfast_records` (
  name VARBINARY(512) PRIMARY KEY, version BIGINT NOT NULL, value BLOB NOT NULL)
  ENGINE = InnoDB;
DELETE t FROM `holdfast_tickets` t LEFT JOIN `holdfast_locks` l ON l.name = t.name WHERE l.name IS NULL;
INSERT INTO `holdfast_meta` VALUES (1, 1) ON DUPLICATE KEY UPDATE id = id;
