-- One replica that left the ISR at least once.
--
-- order by: cluster, topic, partition, broker
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partition (int): partition of the topic
-- broker (int): broker of the replica
-- shrinks (long): how often it left the ISR
-- expands (long): how often it came back
-- first_time (timestamp): when it left first
-- last_time (timestamp): its last change
-- out_ms_total (long): milliseconds outside, to the end of the log
-- out_ms_max (long): longest time outside
--
-- A replica that a reassignment removed has not fallen out, and it is out no longer than it is placed.
WITH events AS (
  SELECT cluster, topic, topic_id, partition, `offset`, time, is_out,
    explode(CASE WHEN is_out THEN `left` ELSE joined END) AS broker
  FROM (SELECT *, explode(array(true, false)) AS is_out FROM isr_changes) c
  WHERE NOT is_out OR cause <> 'reassignment'
), placed AS (
  SELECT p.cluster, p.topic_id, p.partition, p.broker,
    max(coalesce(p.valid_to_time, e.end_time)) AS placed_until
  FROM replica_placement p JOIN log_ends e ON p.cluster = e.cluster
  GROUP BY p.topic_id, p.partition, p.cluster, p.broker
), ordered AS (
  SELECT *, lead(is_out) OVER in_order IS NOT NULL AS is_followed, lead(time) OVER in_order AS next_time
  FROM events
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, broker ORDER BY `offset`, is_out DESC)
), followed AS (
  SELECT o.*, CASE WHEN o.is_followed THEN o.next_time WHEN p.broker IS NULL THEN e.end_time
      ELSE p.placed_until END AS until
  FROM ordered o JOIN log_ends e ON o.cluster = e.cluster
  LEFT JOIN placed p ON o.cluster = p.cluster AND o.topic_id = p.topic_id
    AND o.partition = p.partition AND o.broker = p.broker
), lasted AS (
  SELECT *, CASE WHEN is_out THEN greatest(unix_micros(until) - unix_micros(time), 0) DIV 1000 END AS ms
  FROM followed
), counted AS (
  SELECT cluster, max(topic) AS topic, topic_id, partition, broker, count_if(is_out) AS shrinks,
    count_if(NOT is_out) AS expands, min(CASE WHEN is_out THEN time END) AS first_time,
    max(named_struct('offset', `offset`, 'turn', NOT is_out, 'time', time)) AS last,
    sum(CASE WHEN time IS NOT NULL AND until IS NOT NULL THEN ms END) AS ms_total,
    max(CASE WHEN time IS NOT NULL AND until IS NOT NULL THEN ms END) AS ms_max
  FROM lasted GROUP BY topic_id, partition, cluster, broker
)
SELECT cluster, topic, topic_id, partition, broker, shrinks, expands, first_time,
  last.time AS last_time, CAST(coalesce(ms_total, 0) AS BIGINT) AS out_ms_total,
  coalesce(ms_max, 0) AS out_ms_max
FROM counted WHERE shrinks > 0
