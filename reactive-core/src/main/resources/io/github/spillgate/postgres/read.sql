-- Returns the rows of keys, and the clock.
--   $1      the keys, each with its namespace
--   returns for each key: its number, its value if it has not expired, its version, the clock, whether writes are
--           rejected
SELECT g.n, CASE WHEN t.expires_at > CLOCK / 1000 THEN encode(t.value, 'hex') END, t.version, CLOCK,
  current_setting('transaction_read_only') = 'on'
FROM unnest((SELECT $1::text[])) WITH ORDINALITY AS g (key, n)
LEFT JOIN LATERAL (SELECT * FROM TABLE AS r WHERE r.key = g.key LIMIT 1) AS t ON true
