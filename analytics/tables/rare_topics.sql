-- Step (kept): a topic whose story is not plain; its records are followed one by one. Not plain are
-- changes of something unknown, snapshots that tell another state, and eligible leader replicas
-- that are emptied.
WITH with_elr AS (
  SELECT cluster, topic, topic_id, replay_position, end, next_position FROM partition_steps
  WHERE NOT is_compared AND (size(eligible_leader_replicas) > 0 OR size(last_known_elr) > 0)
), partitions AS (
  SELECT cluster, topic_id, partition, bool_or(is_odd) AS is_odd, count_if(is_compared) AS listed,
    min(CASE WHEN seq = 1 AND NOT is_compared THEN replay_position END) AS begin, max(end) AS end
  FROM partition_steps GROUP BY topic_id, partition, cluster
), clears AS (
  SELECT cluster, coalesce(topic, '') AS topic, replay_position
  FROM few_records WHERE type = 'CLEAR_ELR_RECORD' AND NOT snapshot
)
SELECT DISTINCT r.cluster, r.topic_id
FROM replayed_records r
LEFT ANTI JOIN topic_lives l ON r.cluster = l.cluster AND r.topic_id = l.topic_id
WHERE r.topic_id IS NOT NULL AND r.type IN
  ('TOPIC_RECORD', 'REMOVE_TOPIC_RECORD', 'PARTITION_RECORD', 'PARTITION_CHANGE_RECORD')
UNION
SELECT p.cluster, p.topic_id
FROM partitions p LEFT JOIN sync_points s
  ON p.cluster = s.cluster AND s.position > p.begin AND s.position < p.end AND NOT s.is_base
GROUP BY p.topic_id, p.partition, p.cluster, p.is_odd, p.begin, p.listed
HAVING p.is_odd OR p.begin IS NOT NULL AND p.listed <> count(s.position)
UNION
SELECT s.cluster, s.topic_id
FROM with_elr s JOIN clears c ON s.cluster = c.cluster AND c.topic IN ('', s.topic)
  AND c.replay_position > s.replay_position
  AND c.replay_position < coalesce(s.next_position, s.end)
