-- One move of a replica to another log directory or another broker.
--
-- order by: cluster, topic, partition, broker, assigned_offset
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partition (int): partition of the topic
-- broker (int): broker of the replica; for a reassignment the one that it leaves
-- from_directory (string): directory that it left; null = not known
-- to_directory (string): directory that it went to; null = not known
-- kind (string): directory (within a broker) or reassignment (to another broker)
-- from_broker (int): broker that it left; null = only added
-- to_broker (int): broker that it went to; null = only removed
-- queued_offset (long): offset of the record that began it; null = not in the log
-- queued_time (timestamp): time of that record
-- assigned_offset (long): offset of the record that named the new directory
-- assigned_time (timestamp): time of that record
-- ended_offset (long): offset of the record that ended it; null = still running
-- ended_time (timestamp): time of that record
-- outcome (string): swapped (the new directory was assigned and stayed), reverted (the next one was
--   back to the directory before); of a reassignment completed, cancelled (or replaced by another
--   one), running
-- duration_ms (long): milliseconds from begin to end; null = not known
--
-- Moves within a broker: the log knows of one when its directory is assigned. It is reverted when
-- the next assignment on the broker leads back to the directory before.
-- Reassignments: one runs while a partition has adding or removing replicas. When these change
-- while it runs, it was replaced by another one. Both are paired in their order.
WITH placed AS (
  SELECT *, NOT startswith(directory, 'AAAAAAAAAAAAAAAAAAAA') AS is_real,
    coalesce(valid_to_offset, 9223372036854775807) AS until,
    lead(valid_from_offset, 1) OVER in_order = valid_to_offset AS goes_on,
    lead(valid_from_offset, 2) OVER in_order = lead(valid_to_offset, 1) OVER in_order AS goes_on_again,
    lead(directory, 1) OVER in_order AS next_directory,
    NOT startswith(lead(directory, 1) OVER in_order, 'AAAAAAAAAAAAAAAAAAAA') AS next_is_real,
    lead(directory, 2) OVER in_order AS third_directory,
    lead(valid_from_offset, 1) OVER in_order AS next_offset,
    lead(valid_from_time, 1) OVER in_order AS next_time,
    lead(valid_from_offset, 2) OVER in_order AS third_offset,
    lead(valid_from_time, 2) OVER in_order AS third_time
  FROM replica_placement
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, broker ORDER BY valid_from_offset)
), within AS (
  SELECT *, coalesce(goes_on_again AND third_directory = directory, false) AS is_back FROM placed
  WHERE goes_on AND ended_by = 'moved' AND is_real AND next_is_real
), running AS (
  SELECT *, coalesce(lag(valid_to_offset) OVER in_order = valid_from_offset, false)
      AND lag(adding_replicas) OVER in_order = adding_replicas
      AND lag(removing_replicas) OVER in_order = removing_replicas AS is_same,
    coalesce(lead(valid_from_offset) OVER in_order = valid_to_offset, false) AS is_replaced
  FROM partition_states WHERE size(adding_replicas) > 0 OR size(removing_replicas) > 0
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster ORDER BY valid_from_offset)
), numbered AS (
  SELECT *, sum(CASE WHEN is_same THEN 0 ELSE 1 END) OVER (PARTITION BY topic_id, partition, cluster
      ORDER BY valid_from_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
  FROM running
), runs AS (
  SELECT cluster, topic, topic_id, partition, adding_replicas, removing_replicas, number,
    min(named_struct('offset', valid_from_offset, 'time', valid_from_time)) AS queued,
    max(named_struct('at', valid_from_offset, 'offset', valid_to_offset, 'time', valid_to_time,
      'is_replaced', is_replaced)) AS ended
  FROM numbered
  GROUP BY topic_id, partition, cluster, topic, adding_replicas, removing_replicas, number
), pairs AS (
  SELECT cluster, topic, topic_id, partition, number, nth, queued, ended, CASE WHEN nth < size(removing_replicas) THEN element_at(removing_replicas, nth + 1) END
      AS from_broker,
    CASE WHEN nth < size(adding_replicas) THEN element_at(adding_replicas, nth + 1) END AS to_broker,
    coalesce(ended.`offset`, 9223372036854775807) AS over
  FROM (SELECT *, explode(sequence(0, greatest(size(adding_replicas), size(removing_replicas)) - 1))
    AS nth FROM runs) n
), followed AS (
  SELECT w.cluster, w.topic, w.topic_id, w.partition, w.number, w.nth, w.queued, w.ended, w.from_broker,
    w.to_broker, max(CASE WHEN p.broker = w.from_broker AND p.valid_from_offset <= w.queued.`offset`
        AND p.until >= w.queued.`offset`
      THEN named_struct('at', p.valid_from_offset, 'directory', p.directory) END) AS left_from,
    coalesce(bool_or(p.broker = w.from_broker AND p.valid_from_offset <= w.over AND p.until > w.over),
      false) AS stayed,
    max(CASE WHEN p.broker = w.to_broker AND p.is_real AND p.until > w.queued.`offset`
        AND p.valid_from_offset <= w.over
      THEN named_struct('at', p.valid_from_offset, 'directory', p.directory) END) AS came_to,
    min(CASE WHEN p.broker = w.to_broker AND p.is_real
        AND p.valid_from_offset BETWEEN w.queued.`offset` AND w.over
      THEN named_struct('offset', p.valid_from_offset, 'time', p.valid_from_time) END) AS assigned,
    coalesce(bool_or(p.broker = w.to_broker AND p.valid_from_offset <= w.over AND p.until > w.over),
      false) AS arrived,
    -- A short one may be over before the broker has said where it put the replica.
    max(CASE WHEN p.broker = w.to_broker AND p.valid_from_offset <= w.over AND p.until > w.over
        AND NOT p.is_real AND p.goes_on AND p.next_is_real
      THEN named_struct('offset', p.next_offset, 'time', p.next_time, 'directory', p.next_directory) END)
      AS later
  FROM pairs w LEFT JOIN placed p
    ON p.cluster = w.cluster AND p.topic_id = w.topic_id AND p.partition = w.partition
    AND (p.broker = w.from_broker OR p.broker = w.to_broker)
  GROUP BY w.topic_id, w.partition, w.cluster, w.topic, w.number, w.nth, w.queued, w.ended,
    w.from_broker, w.to_broker
)
SELECT cluster, topic, topic_id, partition, broker, directory AS from_directory,
  next_directory AS to_directory, 'directory' AS kind, broker AS from_broker, broker AS to_broker,
  CAST(NULL AS BIGINT) AS queued_offset, CAST(NULL AS TIMESTAMP) AS queued_time,
  next_offset AS assigned_offset, next_time AS assigned_time,
  CASE WHEN is_back THEN third_offset ELSE next_offset END AS ended_offset,
  CASE WHEN is_back THEN third_time ELSE next_time END AS ended_time,
  CASE WHEN is_back THEN 'reverted' ELSE 'swapped' END AS outcome,
  -- Of one that stayed, the log does not tell when it was begun.
  CASE WHEN is_back THEN unix_micros(third_time) DIV 1000 - unix_micros(next_time) DIV 1000 END
    AS duration_ms
FROM within
UNION ALL
SELECT cluster, topic, topic_id, partition, coalesce(from_broker, to_broker), left_from.directory,
  coalesce(came_to.directory, later.directory), 'reassignment', from_broker, to_broker,
  queued.`offset`, queued.time, coalesce(assigned.`offset`, later.`offset`),
  CASE WHEN assigned IS NULL THEN later.time ELSE assigned.time END, ended.`offset`, ended.time,
  CASE WHEN ended.`offset` IS NULL THEN 'running'
    WHEN ended.is_replaced OR NOT CASE WHEN to_broker IS NULL THEN NOT stayed ELSE arrived END
    THEN 'cancelled' ELSE 'completed' END,
  unix_micros(ended.time) DIV 1000 - unix_micros(queued.time) DIV 1000
FROM followed
