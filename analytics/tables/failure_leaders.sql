-- Step: a failure, and the leaders that the partitions it touched lost and got. What the controller
-- does about a failure stands before its record: in its batch or, if that is full, right before, one
-- record for each replica that it touched at most. The first change from there on counts.
WITH changes AS (
  SELECT cluster, topic_id, partition, valid_from_offset AS at, leader, previous_leader,
    last_value(CASE WHEN leader <> -1 THEN named_struct('offset', valid_from_offset,
      'time', valid_from_time) END) IGNORE NULLS OVER (PARTITION BY topic_id, partition, cluster
      ORDER BY valid_from_offset DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS led
  FROM leadership WHERE previous_leader IS NOT NULL
), moments AS (
  SELECT t.cluster, t.topic_id, t.partition, t.failure, t.broker, t.back_offset, t.is_gone,
    least(t.batch, t.detected_offset - p.touched) AS at, 1 AS turn,
    CAST(NULL AS STRUCT<at: BIGINT, leader: INT, previous_leader: INT,
      led: STRUCT<offset: BIGINT, time: TIMESTAMP>>) AS change
  FROM touched_replicas t JOIN failure_parts p ON t.cluster = p.cluster AND t.failure = p.failure
  UNION ALL
  SELECT cluster, topic_id, partition, NULL, NULL, NULL, NULL, at, 2,
    named_struct('at', at, 'leader', leader, 'previous_leader', previous_leader, 'led', led)
  FROM changes
), found AS (
  SELECT *, last_value(change) IGNORE NULLS OVER (PARTITION BY topic_id, partition, cluster
    ORDER BY at DESC, turn DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS first_change
  FROM moments
), concerned AS (
  SELECT * FROM found WHERE turn = 1 AND first_change.previous_leader = broker
    AND first_change.at <= coalesce(back_offset, 9223372036854775807)
)
SELECT cluster, failure, count_if(first_change.leader <> -1) AS moved,
  count_if(first_change.leader = -1) AS lost,
  count_if(first_change.led IS NULL AND NOT is_gone) AS still_lost,
  max(first_change.led) AS last_leader
FROM concerned GROUP BY cluster, failure
