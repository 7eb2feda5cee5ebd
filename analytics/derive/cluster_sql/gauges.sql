WITH of_failures AS (
  SELECT CASE WHEN directory IS NULL THEN 'failed_brokers' ELSE 'offline_directories' END AS what,
    stretch(epoch_us(detected_time)) AS first, back_offset IS NULL AS is_open,
    stretch(epoch_us(greatest(detected_time, back_time))) AS behind,
    greatest(first, stretch(epoch_us(back_time) - 1)) + stretch_us() AS past
  FROM failures
  WHERE detected_time IS NOT NULL AND (back_offset IS NULL OR back_time IS NOT NULL)
), steps AS (
  SELECT what, broker, directory, from_time, at_end, ever FROM gauge_steps
  UNION ALL
  SELECT what, broker, NULL, from_time, at_end, ever FROM gauge_steps WHERE broker IS NOT NULL
  UNION ALL
  SELECT what, NULL, NULL, make_timestamptz(first), 1, 1 FROM of_failures
  UNION ALL
  SELECT what, NULL, NULL, make_timestamptz(behind), -1, 0 FROM of_failures WHERE NOT is_open
  UNION ALL
  SELECT what, NULL, NULL, make_timestamptz(past), 0, -1 FROM of_failures WHERE NOT is_open
)
SELECT what, broker, directory, from_time,
  sum(at_end) OVER so_far AS at_end, sum(ever) OVER so_far AS ever
FROM (
  SELECT what, broker, directory, from_time, sum(at_end) AS at_end, sum(ever) AS ever
  FROM steps GROUP BY ALL HAVING sum(at_end) <> 0 OR sum(ever) <> 0
) WINDOW so_far AS (PARTITION BY what, broker, directory ORDER BY from_time
  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
