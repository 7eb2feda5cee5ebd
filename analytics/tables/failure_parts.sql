-- Step (kept): a failure, and when the replicas that it touched were whole again or gone.
WITH begun AS (
  -- A broker that does not serve is in no ISR.
  SELECT *, CASE WHEN directory IS NULL THEN back_offset ELSE detected_offset END AS begin,
    CASE WHEN directory IS NULL THEN back_time ELSE detected_time END AS begin_time
  FROM touched_replicas
), moments AS (
  -- The first state with a leader and all replicas in sync that ends behind the begin.
  SELECT cluster, topic, topic_id, partition, failure, directory, begin, begin_time, is_gone,
    valid_to_offset, valid_to_time, coalesce(begin, 9223372036854775807) AS at, 1 AS turn,
    CAST(NULL AS STRUCT<offset: BIGINT, time: TIMESTAMP>) AS whole
  FROM begun
  UNION ALL
  SELECT cluster, NULL, topic_id, partition, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    coalesce(valid_to_offset, 9223372036854775807), 0,
    named_struct('offset', valid_from_offset, 'time', valid_from_time)
  FROM partition_states WHERE leader <> -1 AND size(isr) >= size(replicas)
), found AS (
  SELECT *, last_value(whole) IGNORE NULLS OVER (PARTITION BY topic_id, partition, cluster
    ORDER BY at DESC, turn DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS next_whole
  FROM moments
), again AS (
  SELECT *, CASE WHEN next_whole IS NOT NULL THEN greatest(next_whole.`offset`, begin) END AS again,
    CASE WHEN next_whole.`offset` <= begin THEN begin_time ELSE next_whole.time END AS again_time
  FROM found WHERE turn = 1
), judged AS (
  SELECT *, is_gone AND coalesce(valid_to_offset, 9223372036854775807)
      < coalesce(again, 9223372036854775807) AS goes_first
  FROM again
), done AS (
  SELECT *, CASE WHEN goes_first THEN valid_to_offset ELSE again END AS done,
    CASE WHEN goes_first THEN valid_to_time ELSE again_time END AS done_time
  FROM judged
)
SELECT cluster, failure, count(*) AS touched, count(valid_to_offset) AS gone,
  max(CASE WHEN valid_to_offset IS NOT NULL
    THEN named_struct('offset', valid_to_offset, 'time', valid_to_time) END) AS last_gone,
  count(done) AS done,
  max(CASE WHEN done IS NOT NULL THEN named_struct('offset', done, 'time', done_time) END) AS last_done,
  -- A topic whose name is not known leaves the number only.
  array_sort(collect_list(CASE WHEN directory IS NOT NULL
    THEN coalesce(concat(topic, '-', partition), CAST(partition AS STRING)) END)) AS partitions
FROM done GROUP BY cluster, failure
