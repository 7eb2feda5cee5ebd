-- Moves within a broker: the log knows of one when its directory is assigned. It is reverted when
-- the next assignment on the broker leads back to the directory before.
-- Reassignments: one runs while a partition has adding or removing replicas. When these change
-- while it runs, it was replaced by another one. Both are paired in their order.
WITH placed AS (
  SELECT *, is_real(directory) AS is_real, coalesce(valid_to_offset, 9223372036854775807) AS until,
    lead(valid_from_offset, 1) OVER in_order = valid_to_offset AS goes_on,
    lead(valid_from_offset, 2) OVER in_order = lead(valid_to_offset, 1) OVER in_order AS goes_on_again,
    lead(directory, 1) OVER in_order AS next_directory,
    lead(directory, 2) OVER in_order AS third_directory,
    lead(valid_from_offset, 1) OVER in_order AS next_offset,
    lead(valid_from_time, 1) OVER in_order AS next_time,
    lead(valid_from_offset, 2) OVER in_order AS third_offset,
    lead(valid_from_time, 2) OVER in_order AS third_time
  FROM replica_placement
  WINDOW in_order AS (PARTITION BY topic_id, partition, broker ORDER BY valid_from_offset)
), within AS (
  SELECT *, coalesce(goes_on_again AND third_directory = directory, false) AS is_back FROM placed
  WHERE goes_on AND ended_by = 'moved' AND is_real AND is_real(next_directory)
), running AS (
  SELECT *, lag(valid_to_offset) OVER in_order IS NOT DISTINCT FROM valid_from_offset AS goes_on,
    goes_on AND lag(adding_replicas) OVER in_order = adding_replicas
      AND lag(removing_replicas) OVER in_order = removing_replicas AS is_same,
    lead(valid_from_offset) OVER in_order IS NOT DISTINCT FROM valid_to_offset
      AND valid_to_offset IS NOT NULL AS is_replaced
  FROM partition_history WHERE len(adding_replicas) > 0 OR len(removing_replicas) > 0
  WINDOW in_order AS (PARTITION BY topic_id, partition ORDER BY valid_from_offset)
), runs AS (
  SELECT topic, topic_id, partition, adding_replicas, removing_replicas,
    min(valid_from_offset) AS queued,
    arg_min_null(valid_from_time, valid_from_offset) AS queued_time,
    arg_max_null(valid_to_offset, valid_from_offset) AS ended,
    arg_max_null(valid_to_time, valid_from_offset) AS ended_time,
    arg_max(is_replaced, valid_from_offset) AS is_replaced
  FROM (
    SELECT *, count(*) FILTER (WHERE NOT is_same) OVER (
      PARTITION BY topic_id, partition ORDER BY valid_from_offset ROWS UNBOUNDED PRECEDING
    ) AS number FROM running
  ) GROUP BY topic, topic_id, partition, adding_replicas, removing_replicas, number
), pairs AS (
  SELECT topic, topic_id, partition, queued, queued_time, ended, ended_time, is_replaced,
    unnest(removing_replicas) AS from_broker, unnest(adding_replicas) AS to_broker,
    coalesce(ended, 9223372036854775807) AS over
  FROM runs
), followed AS (
  SELECT w.*,
    arg_max_null(directory, valid_from_offset) FILTER (
      WHERE broker = from_broker AND valid_from_offset <= queued AND until >= queued
    ) AS from_directory,
    coalesce(bool_or(broker = from_broker AND valid_from_offset <= over AND until > over), false)
      AS stayed,
    arg_max(directory, valid_from_offset) FILTER (
      WHERE broker = to_broker AND is_real AND until > queued AND valid_from_offset <= over
    ) AS came_to,
    min({'offset': valid_from_offset, 'time': valid_from_time}) FILTER (
      WHERE broker = to_broker AND is_real AND valid_from_offset BETWEEN queued AND over
    ) AS assigned,
    coalesce(bool_or(broker = to_broker AND valid_from_offset <= over AND until > over), false)
      AS arrived,
    -- A short one may be over before the broker has said where it put the replica.
    max({'offset': next_offset, 'time': next_time, 'directory': next_directory}) FILTER (
      WHERE broker = to_broker AND valid_from_offset <= over AND until > over
        AND NOT is_real AND goes_on AND is_real(next_directory)
    ) AS later
  FROM pairs w LEFT JOIN placed p
    ON p.topic_id = w.topic_id AND p.partition = w.partition AND p.broker IN (from_broker, to_broker)
  GROUP BY ALL
)
SELECT topic, topic_id, partition, broker, directory AS from_directory,
  next_directory AS to_directory, 'directory' AS kind, broker AS from_broker, broker AS to_broker,
  NULL AS queued_offset, NULL AS queued_time,
  next_offset AS assigned_offset, next_time AS assigned_time,
  CASE WHEN is_back THEN third_offset ELSE next_offset END AS ended_offset,
  CASE WHEN is_back THEN third_time ELSE next_time END AS ended_time,
  CASE WHEN is_back THEN 'reverted' ELSE 'swapped' END AS outcome,
  -- Of one that stayed, the log does not tell when it was begun.
  CASE WHEN is_back THEN epoch_ms(third_time) - epoch_ms(next_time) END AS duration_ms
FROM within
UNION ALL
SELECT topic, topic_id, partition, coalesce(from_broker, to_broker), from_directory,
  coalesce(came_to, later.directory), 'reassignment', from_broker, to_broker, queued, queued_time,
  coalesce(assigned.offset, later.offset),
  CASE WHEN assigned IS NULL THEN later.time ELSE assigned.time END,
  ended, ended_time,
  CASE WHEN ended IS NULL THEN 'running'
    WHEN is_replaced OR NOT CASE WHEN to_broker IS NULL THEN NOT stayed ELSE arrived END
    THEN 'cancelled' ELSE 'completed' END,
  epoch_ms(ended_time) - epoch_ms(queued_time)
FROM followed
