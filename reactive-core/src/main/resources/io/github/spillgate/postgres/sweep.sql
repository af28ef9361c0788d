-- Deletes the rows between two places of the table that expired three minutes ago, unless another transaction does so
-- now. A process may have read that there was no row, and no decision is under way for longer: it would not notice that
-- the row was written and has expired in between.
--   $1, $2  the places, such as (0,0) and (128,0)
--   returns the number of pages of the table
WITH sg_turn AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock(hashtextextended('sweep TABLE', 0)) AS is_mine
), sg_expired AS MATERIALIZED (
  SELECT t.ctid AS place
  FROM sg_turn CROSS JOIN LATERAL (
    SELECT ctid FROM TABLE
    WHERE sg_turn.is_mine AND ctid >= $1::text::tid AND ctid < $2::text::tid
      AND expires_at <= (SELECT CLOCK / 1000) - 180000
    FOR UPDATE SKIP LOCKED) AS t
), sg_swept AS (
  DELETE FROM TABLE AS t USING sg_expired AS e WHERE t.ctid = e.place
)
SELECT pg_relation_size('TABLE') / current_setting('block_size')::int
