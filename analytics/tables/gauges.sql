-- One number in one stretch of time in which it changed; it holds until the next row. The stretches
-- are a two-hundredth of the log or more.
--
-- order by: cluster, what, broker, directory, from_time
--
-- cluster (string): label of the cluster
-- what (string): partitions; of these leaderless, under_replicated, under_min_isr, not_preferred
--   (led by another than the first replica); offline_replicas (their directory or broker had
--   failed); offline_directories; failed_brokers; replicas and leaders of a directory
-- broker (int): broker of the directory; null where all brokers are counted
-- directory (string): id of the directory, also reserved ones; null where all of the broker are
--   counted
-- from_time (timestamp): begin of the stretch of time
-- at_end (long): how many there were at its end
-- ever (long): how many were so at any time in it; in the next ones at_end of them
WITH of_failures AS (
  SELECT f.cluster, e.stretch_ms * 1000 AS us,
    CASE WHEN f.directory IS NULL THEN 'failed_brokers' ELSE 'offline_directories' END AS what,
    unix_micros(f.detected_time) AS begin, f.back_offset IS NULL AS is_open,
    greatest(unix_micros(f.detected_time), unix_micros(f.back_time)) AS until,
    unix_micros(f.back_time) - 1 AS last_us
  FROM failures f JOIN log_ends e ON f.cluster = e.cluster
  WHERE f.detected_time IS NOT NULL AND (f.back_offset IS NULL OR f.back_time IS NOT NULL)
), steps AS (
  SELECT cluster, what, broker, directory, moment, at_end, ever FROM gauge_steps
  UNION ALL
  SELECT cluster, what, broker, NULL, moment, at_end, ever FROM gauge_steps WHERE broker IS NOT NULL
  UNION ALL
  SELECT cluster, what, NULL, NULL, begin - pmod(begin, us), 1, 1 FROM of_failures
  UNION ALL
  SELECT cluster, what, NULL, NULL, until - pmod(until, us), -1, 0 FROM of_failures WHERE NOT is_open
  UNION ALL
  SELECT cluster, what, NULL, NULL,
    greatest(begin - pmod(begin, us), last_us - pmod(last_us, us)) + us, 0, -1
  FROM of_failures WHERE NOT is_open
), summed AS (
  SELECT cluster, what, broker, directory, moment, sum(at_end) AS at_end, sum(ever) AS ever
  FROM steps GROUP BY cluster, what, broker, directory, moment
)
SELECT cluster, what, broker, directory, timestamp_micros(moment) AS from_time,
  CAST(sum(at_end) OVER so_far AS BIGINT) AS at_end, CAST(sum(ever) OVER so_far AS BIGINT) AS ever
FROM summed WHERE at_end <> 0 OR ever <> 0
WINDOW so_far AS (PARTITION BY cluster, what, broker, directory ORDER BY moment
  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
