-- What the controller does about a failure stands before its record: in its batch or, if that is
-- full, right before, one record for each replica that it touched at most. Their number is known
-- when all buckets are. So the changes that may be the first one after the failure are given one by
-- one, and what is certain is summed up.
WITH changes AS (
  SELECT topic_id, partition, valid_from_offset AS change_offset, leader, previous_leader,
    min(valid_from_offset) FILTER (WHERE leader <> -1) OVER rest AS led_offset,
    arg_min_null(valid_from_time, valid_from_offset) FILTER (WHERE leader <> -1) OVER rest
      AS led_time
  FROM leadership WHERE previous_leader IS NOT NULL
  WINDOW rest AS (
    PARTITION BY topic_id, partition ORDER BY valid_from_offset
    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
  )
), early AS (
  SELECT t.failure, t.broker, t.back_offset, t.is_gone, c.*
  FROM touched t JOIN changes c ON t.topic_id = c.topic_id AND t.partition = c.partition
    AND c.change_offset < t.batch AND c.change_offset >= t.detected_offset - t.touched_at_most
), first AS (
  SELECT t.failure, t.broker, t.back_offset, t.is_gone, c.*
  FROM touched t ASOF JOIN changes c
    ON t.topic_id = c.topic_id AND t.partition = c.partition AND t.batch <= c.change_offset
), every AS (
  SELECT *, true AS is_open FROM early
  UNION ALL
  SELECT *, (failure, topic_id, partition) IN (SELECT (failure, topic_id, partition) FROM early)
  FROM first
), concerned AS (
  SELECT *, previous_leader = broker AND change_offset <= or_never(back_offset) AS is_concerned
  FROM every
)
SELECT failure, CASE WHEN is_open THEN topic_id END AS of_topic,
  CASE WHEN is_open THEN partition END AS of_partition,
  CASE WHEN is_open THEN change_offset END AS since_offset,
  count_if(is_concerned AND leader <> -1) AS moved,
  count_if(is_concerned AND leader = -1) AS lost,
  count_if(is_concerned AND led_offset IS NULL AND NOT is_gone) AS still_lost,
  max(led_offset) FILTER (WHERE is_concerned) AS last_leader_offset,
  arg_max_null(led_time, led_offset) FILTER (WHERE is_concerned AND led_offset IS NOT NULL)
    AS last_leader_time
FROM concerned WHERE is_open OR is_concerned
GROUP BY failure, of_topic, of_partition, since_offset
