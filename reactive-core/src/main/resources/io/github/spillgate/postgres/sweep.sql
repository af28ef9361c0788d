-- Deletes the expired rows between two places of the table, unless another transaction does so now.
--   $1, $2  the places, such as (0,0) and (128,0)
--   returns the number of pages of the table
WITH turn AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock(hashtextextended('sweep TABLE', 0)) AS is_mine
), expired AS MATERIALIZED (
  SELECT t.ctid AS place
  FROM turn CROSS JOIN LATERAL (
    SELECT ctid FROM TABLE
    WHERE turn.is_mine AND ctid >= $1::text::tid AND ctid < $2::text::tid AND expires_at <= CLOCK / 1000
    FOR UPDATE SKIP LOCKED) AS t
), swept AS (
  DELETE FROM TABLE AS t USING expired AS e WHERE t.ctid = e.place
)
SELECT pg_relation_size('TABLE') / current_setting('block_size')::int
