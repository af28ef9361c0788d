-- Gives rows that exist a new version, so that a write that another process has computed before does not fit any more.
--   $1, $2   for each row: the key, the next version
--   returns  for each row that has got it, as read.sql: its number, its value if it has not expired, its version, the
--            clock. A row that another transaction has locked, or has changed since the statement began, may get none.
--            No rows if they are long: see write.sql
--
-- BETWEEN, which is always true, makes the planner expect so few rows that it uses the index, even if the table was empty
-- when it planned.
WITH sg_locked AS MATERIALIZED (
  SELECT g.n, g.next_version, t.row_key
  FROM unnest((SELECT $1::text[]), (SELECT $2::bigint[])) WITH ORDINALITY AS g (key, next_version, n)
  CROSS JOIN LATERAL (
    SELECT r.key AS row_key FROM TABLE AS r WHERE r.key = g.key FOR UPDATE SKIP LOCKED) AS t
), sg_renumbered AS (
  UPDATE TABLE AS t SET version = l.next_version FROM sg_locked AS l
  WHERE t.key = l.row_key AND l.n BETWEEN 1 AND 64
  RETURNING l.n, t.value, t.version, t.expires_at
)
SELECT t.n, CASE WHEN t.expires_at > CLOCK / 1000 THEN encode(t.value, 'hex') END, t.version, CLOCK
FROM sg_renumbered AS t
WHERE (SELECT sum(length(value)) FROM sg_renumbered) <= 4000
