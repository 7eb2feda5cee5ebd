-- Step (kept): a topic whose story is not plain; its records are followed one by one. Not plain are
-- changes of something unknown, snapshots that tell another state, and eligible leader replicas
-- that are emptied.
WITH steps AS (
  SELECT * FROM partition_steps
), with_elr AS (
  SELECT cluster, topic, topic_id, replay_position, end, next_position FROM steps
  WHERE NOT is_compared AND (size(eligible_leader_replicas) > 0 OR size(last_known_elr) > 0)
), partitions AS (
  SELECT cluster, topic_id, partition, end, min(CASE WHEN NOT is_compared THEN replay_position END)
      AS begin, count(CASE WHEN is_compared THEN 1 END) AS listed,
    count(DISTINCT CASE WHEN is_compared THEN replay_position END) AS right_listed
  FROM steps GROUP BY cluster, topic_id, partition, end
), met AS (
  SELECT p.cluster, p.topic_id, p.partition, count(*) AS times
  FROM partitions p JOIN sync_points s
    ON p.cluster = s.cluster AND s.position > p.begin AND s.position < p.end AND NOT s.is_base
  GROUP BY p.cluster, p.topic_id, p.partition
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
SELECT cluster, topic_id FROM steps
WHERE is_odd OR is_compared AND (said.leader IS DISTINCT FROM leader
    OR said.leader_epoch IS DISTINCT FROM leader_epoch
    OR said.partition_epoch IS DISTINCT FROM partition_epoch
    OR said.leader_recovery_state IS DISTINCT FROM leader_recovery_state
    OR said.replicas IS DISTINCT FROM replicas OR said.isr IS DISTINCT FROM isr
    OR said.removing_replicas IS DISTINCT FROM removing_replicas
    OR said.adding_replicas IS DISTINCT FROM adding_replicas
    -- Older versions of the record do not hold these.
    OR version >= 1 AND said.directories IS DISTINCT FROM directories
    OR version >= 2 AND (said.eligible_leader_replicas IS DISTINCT FROM eligible_leader_replicas
      OR said.last_known_elr IS DISTINCT FROM last_known_elr))
UNION
SELECT p.cluster, p.topic_id
FROM partitions p LEFT JOIN met m
  ON p.cluster = m.cluster AND p.topic_id = m.topic_id AND p.partition = m.partition
WHERE p.begin IS NULL OR p.listed <> coalesce(m.times, 0) OR p.right_listed <> p.listed
UNION
SELECT s.cluster, s.topic_id
FROM with_elr s JOIN clears c ON s.cluster = c.cluster AND c.topic IN ('', s.topic)
  AND c.replay_position > s.replay_position
  AND c.replay_position < coalesce(s.next_position, s.end)
