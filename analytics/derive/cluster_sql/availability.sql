-- Equal lives of partitions, and equal outages, are counted before they are cut into days.
WITH spans AS (
  SELECT topic, topic_id, NULL AS kind, from_time, to_time, sum(count) AS count
  FROM lives GROUP BY ALL
  UNION ALL
  SELECT NULL, topic_id, kind, from_time, to_time, sum(count) FROM shortages GROUP BY ALL
), cut AS (
  -- A clock that was set back makes a span end before it began.
  SELECT * REPLACE (greatest(from_time, to_time) AS to_time),
    CAST(unnest(range(CAST(from_time AS DATE), CAST(greatest(from_time, to_time) AS DATE) + 1,
      INTERVAL 1 DAY)) AS DATE) AS day
  FROM spans WHERE from_time IS NOT NULL AND to_time IS NOT NULL
), days AS (
  -- A span that ends at midnight has no part in the new day.
  SELECT *, epoch_ms(least(CAST(day + 1 AS TIMESTAMPTZ), to_time))
    - epoch_ms(greatest(CAST(day AS TIMESTAMPTZ), from_time)) AS ms
  FROM cut WHERE ms > 0 OR CAST(from_time AS DATE) = day
), lost AS (
  SELECT topic_id, day,
    sum(count * ms) FILTER (WHERE kind = 'leaderless') AS leaderless_ms,
    sum(count * ms) FILTER (WHERE kind = 'under_min_isr') AS under_min_isr_ms,
    sum(count * ms) FILTER (WHERE kind = 'unwritable') AS unwritable_ms
  FROM days WHERE kind IS NOT NULL GROUP BY topic_id, day
), lived AS (
  SELECT topic, topic_id, day, sum(count) AS partitions, sum(count * ms) AS partition_ms
  FROM days WHERE kind IS NULL GROUP BY topic, topic_id, day
)
SELECT * REPLACE (coalesce(leaderless_ms, 0) AS leaderless_ms,
    coalesce(under_min_isr_ms, 0) AS under_min_isr_ms, coalesce(unwritable_ms, 0) AS unwritable_ms),
  CASE WHEN partition_ms > 0 THEN 1 - coalesce(leaderless_ms, 0) / partition_ms END AS availability,
  CASE WHEN partition_ms > 0 THEN 1 - coalesce(unwritable_ms, 0) / partition_ms END
    AS write_availability
FROM lived LEFT JOIN lost USING (topic_id, day)
