-- Writes those changes whose rows are as expected, in time, and returns which rows were not written.
--   $1 to $5 for each row: the key, the value in hexadecimal, the expected version (0 if there must be no row), the
--            next version, the expiry
--   $6, $7   for each row: the number of its change, and the deadline of that
--   returns  the clock, and the numbers of the rows that were not written, if any. Not their values: the rows stay
--            locked until a long reply is sent, and a process that is stopped does not receive it
--
-- A statement sees the rows as they were when it began, and FOR UPDATE the newest version of each. Its steps have names
-- that no table has:
--   sg_locked    locks the rows that exist. It waits for no lock: a row that another transaction has locked is left
--                out, and does not fit
--   sg_clock     is read when all locks are held
--   sg_fit       the changes of which all rows have the expected version, and the deadline has not passed
--   sg_updated   writes the rows that exist
--   sg_inserted  writes the others. An absent row cannot be locked: another transaction may have inserted it since,
--                then it is not written. If that transaction has not ended, or one changes the row now, the insertion
--                waits for it. So two may wait for each other, which is rare: one of them is undone
--   sg_unsafe    changes that are written in part, or were late after such a wait. Both are rare. Then the statement
--                fails with a division by zero, and nothing is written
WITH sg_given AS MATERIALIZED (
  SELECT *
  FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]),
      (SELECT $5::bigint[]), (SELECT $6::int[]), (SELECT $7::bigint[])) WITH ORDINALITY
    AS g (key, value, version, next_version, expires_at, change, deadline, n)
), sg_locked AS MATERIALIZED (
  SELECT t.*
  FROM sg_given AS g
  CROSS JOIN LATERAL (SELECT * FROM TABLE AS r WHERE r.key = g.key FOR UPDATE SKIP LOCKED) AS t
), sg_clock AS MATERIALIZED (
  SELECT CLOCK AS micros FROM (SELECT count(*) FROM sg_locked) AS after
), sg_fit AS MATERIALIZED (
  SELECT g.change
  FROM sg_given AS g LEFT JOIN sg_locked AS l USING (key) CROSS JOIN sg_clock AS c
  GROUP BY g.change
  HAVING bool_and(coalesce(l.version, 0) = g.version AND c.micros <= g.deadline)
), sg_updated AS (
  UPDATE TABLE AS t
  SET value = decode(g.value, 'hex'), version = g.next_version,
    expires_at = CASE WHEN g.value = '' THEN 0 ELSE greatest(t.expires_at, g.expires_at) END
  FROM sg_given AS g JOIN sg_fit USING (change)
  WHERE t.key = g.key AND g.version <> 0
  RETURNING t.key
), sg_inserted AS (
  INSERT INTO TABLE AS t (key, value, version, expires_at)
  SELECT g.key, decode(g.value, 'hex'), g.next_version, g.expires_at
  FROM sg_given AS g JOIN sg_fit USING (change)
  WHERE g.version = 0
  ORDER BY g.key
  ON CONFLICT (key) DO NOTHING
  RETURNING t.key
), sg_written AS MATERIALIZED (
  SELECT key FROM sg_updated UNION ALL SELECT key FROM sg_inserted
), sg_unsafe AS (
  SELECT g.change FROM sg_given AS g LEFT JOIN sg_written AS w USING (key)
  GROUP BY g.change
  HAVING count(w.key) > 0
    AND (count(w.key) < count(*) OR bool_or(g.version = 0) AND CLOCK > min(g.deadline))
)
SELECT c.micros, (SELECT array_agg(n) FROM sg_given WHERE key NOT IN (SELECT key FROM sg_written))
FROM sg_clock AS c
WHERE 1 / (SELECT CASE count(*) WHEN 0 THEN 1 ELSE 0 END FROM sg_unsafe) = 1
