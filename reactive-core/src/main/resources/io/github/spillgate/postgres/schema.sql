-- The tables of PostgresStore, for Flyway or Liquibase: of counts, and of published limits, in one row. Without
-- UNLOGGED, the counts survive a crash, and each decision writes WAL.
CREATE UNLOGGED TABLE IF NOT EXISTS spillgate_counts (
  key text COLLATE "C" PRIMARY KEY,
  value bytea NOT NULL,
  version bigint NOT NULL,
  expires_at bigint NOT NULL
) WITH (fillfactor = 50, vacuum_truncate = off);
ALTER TABLE spillgate_counts ALTER COLUMN value SET STORAGE MAIN;
CREATE TABLE IF NOT EXISTS spillgate_counts_published (LIKE spillgate_counts INCLUDING INDEXES);
