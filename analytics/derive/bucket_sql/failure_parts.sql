WITH whole AS (
  SELECT topic_id, partition, valid_from_offset, valid_from_time,
    or_never(valid_to_offset) AS until
  FROM partition_history WHERE leader <> -1 AND len(isr) >= len(replicas)
), begun AS (
  -- A broker that does not serve is in no ISR.
  SELECT *, CASE WHEN directory IS NULL THEN back_offset ELSE detected_offset END AS begin,
    CASE WHEN directory IS NULL THEN back_time ELSE detected_time END AS begin_time
  FROM touched
), again AS (
  SELECT b.*, CASE WHEN w.until IS NOT NULL THEN greatest(w.valid_from_offset, begin) END AS again,
    CASE WHEN w.valid_from_offset <= begin THEN begin_time ELSE w.valid_from_time END AS again_time
  FROM begun b ASOF LEFT JOIN whole w
    ON b.topic_id = w.topic_id AND b.partition = w.partition AND b.begin < w.until
), done AS (
  SELECT *, is_gone AND or_never(valid_to_offset) < or_never(again) AS goes_first,
    CASE WHEN goes_first THEN valid_to_offset ELSE again END AS done,
    CASE WHEN goes_first THEN valid_to_time ELSE again_time END AS done_time
  FROM again
)
SELECT failure, count(*) AS touched, count(valid_to_offset) AS gone,
  max(valid_to_offset) AS last_gone_offset,
  arg_max_null(valid_to_time, valid_to_offset) AS last_gone_time,
  count(done) AS done, max(done) AS last_done_offset, arg_max_null(done_time, done) AS last_done_time,
  -- A topic whose name is not known leaves the number only.
  list(coalesce(topic || '-' || partition, CAST(partition AS VARCHAR)))
    FILTER (WHERE directory IS NOT NULL) AS partitions
FROM done GROUP BY failure
