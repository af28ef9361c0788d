-- Writes one row that exists, as write.sql does. Most batches of a service with little traffic are one row, and this
-- takes a quarter of the time.
--   $1 to $6 the key, the value in hexadecimal, the expected version, the next version, the expiry, the deadline
--   returns  nothing if there is no row, or another transaction has locked it; otherwise the clock, whether the row was
--            written, its version before, and unless it was written or is long, its value, if it has not expired by
--            that clock: a value that expires later must not be taken for absent before
WITH sg_locked AS MATERIALIZED (
  SELECT r.version, r.value, r.expires_at FROM TABLE AS r WHERE r.key = $1 FOR UPDATE SKIP LOCKED
), sg_updated AS (
  UPDATE TABLE AS t
  SET value = decode($2, 'hex'), version = $4,
    expires_at = CASE WHEN $2 = '' THEN 0 ELSE greatest(t.expires_at, $5) END
  FROM sg_locked AS l
  WHERE t.key = $1 AND t.version = l.version AND l.version = $3 AND CLOCK <= $6
  RETURNING t.key
), sg_written AS MATERIALIZED (
  SELECT count(*) > 0 AS is_written FROM sg_updated
), sg_clock AS MATERIALIZED (
  SELECT CLOCK AS micros FROM sg_written
)
SELECT c.micros, w.is_written, t.version,
  CASE WHEN t.expires_at > c.micros / 1000 THEN
    CASE WHEN w.is_written THEN '' WHEN length(t.value) <= 4000 THEN encode(t.value, 'hex') END
  ELSE '' END
FROM sg_locked AS t CROSS JOIN sg_written AS w CROSS JOIN sg_clock AS c
