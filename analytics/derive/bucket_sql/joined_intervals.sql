-- Intervals of one thing that overlap or touch, as one.
WITH held AS (
  SELECT 'unwritable' AS what, NULL AS broker, topic_id, partition, from_time,
    to_offset IS NULL AS is_open, to_time
  FROM outages
  UNION ALL
  SELECT 'offline_replicas', broker, topic_id, partition, detected_time,
    back_offset IS NULL AND valid_to_offset IS NULL,
    first_end(back_offset, back_time, valid_to_offset, valid_to_time)
  FROM touched
), begun AS (
  SELECT what, broker, topic_id, partition, from_time,
    -- A clock that was set back makes an interval end before it began.
    CASE WHEN is_open THEN 'infinity' ELSE greatest(from_time, to_time) END AS until,
    max(until) OVER (
      PARTITION BY what, broker, topic_id, partition ORDER BY from_time
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before
  FROM held WHERE from_time IS NOT NULL AND (is_open OR to_time IS NOT NULL)
), numbered AS (
  -- Of those that begin at one time the first one is the same as above.
  SELECT *, before IS NULL OR before < from_time AS is_first,
    count_if(is_first) OVER (
      PARTITION BY what, broker, topic_id, partition ORDER BY from_time, is_first DESC
      ROWS UNBOUNDED PRECEDING
    ) AS number
  FROM begun
)
SELECT what, broker, topic_id, partition, min(from_time) AS from_time,
  max(until) = 'infinity' AS is_open, nullif(max(until), 'infinity') AS to_time
FROM numbered GROUP BY what, broker, topic_id, partition, number
