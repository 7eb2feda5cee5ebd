-- Step (kept): intervals of one thing that overlap or touch, as one, in microseconds: partitions that
-- could not be written, and replicas that were offline.
WITH held AS (
  SELECT cluster, 'unwritable' AS what, CAST(NULL AS INT) AS broker, topic_id, partition, from_time,
    to_offset IS NULL AS is_open, to_time
  FROM outages
  UNION ALL
  -- What ends with the first of two, each of which may not have ended.
  SELECT cluster, 'offline_replicas', broker, topic_id, partition, detected_time,
    back_offset IS NULL AND valid_to_offset IS NULL, CASE WHEN back_offset IS NULL THEN valid_to_time
      WHEN valid_to_offset IS NULL THEN back_time
      WHEN back_time IS NOT NULL AND valid_to_time IS NOT NULL THEN least(back_time, valid_to_time) END
  FROM touched_replicas
), spans AS (
  -- A clock that was set back makes an interval end before it began. Equal ones would be numbered in
  -- any order.
  SELECT DISTINCT cluster, what, broker, topic_id, partition, unix_micros(from_time) AS begin,
    CASE WHEN is_open THEN 9223372036854775807
      ELSE greatest(unix_micros(from_time), unix_micros(to_time)) END AS until
  FROM held WHERE from_time IS NOT NULL AND (is_open OR to_time IS NOT NULL)
), begun AS (
  SELECT *, max(until) OVER (PARTITION BY topic_id, partition, cluster, what, broker
      ORDER BY begin, until ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM spans
), numbered AS (
  SELECT *, sum(CASE WHEN before IS NULL OR before < begin THEN 1 ELSE 0 END) OVER (
      PARTITION BY topic_id, partition, cluster, what, broker ORDER BY begin, until
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
  FROM begun
)
SELECT cluster, what, broker, topic_id, partition, timestamp_micros(min(begin)) AS from_time,
  max(until) = 9223372036854775807 AS is_open,
  CASE WHEN max(until) < 9223372036854775807 THEN timestamp_micros(max(until)) END AS to_time
FROM numbered GROUP BY topic_id, partition, cluster, what, broker, number
