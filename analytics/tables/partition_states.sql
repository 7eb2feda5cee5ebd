-- Step (kept): a state of a partition, the end of its life, and the state before it in the same life:
-- of plain topics, and of those that the fold of single records gives.
WITH states AS (
  SELECT s.cluster, s.topic, s.topic_id, s.partition, s.seq, 1 AS life, s.leader, s.leader_epoch,
    s.partition_epoch, s.leader_recovery_state, s.replicas, s.isr, s.removing_replicas,
    s.adding_replicas, s.directories, s.eligible_leader_replicas, s.last_known_elr,
    s.valid_from_offset, s.valid_from_time, s.record_type, s.batch_base_offset, s.batch_last_offset,
    s.removed_offset AS life_to_offset, s.removed_time AS life_to_time,
    CASE WHEN s.removed_offset IS NOT NULL THEN 'topic_deleted' END AS life_ended_by
  FROM partition_steps s
  LEFT ANTI JOIN rare_topics r ON s.cluster = r.cluster AND s.topic_id = r.topic_id
  WHERE NOT s.is_compared
  UNION ALL
  SELECT cluster, topic, topic_id, partition, seq, life, leader, leader_epoch, partition_epoch,
    leader_recovery_state, replicas, isr, removing_replicas, adding_replicas, directories,
    eligible_leader_replicas, last_known_elr, valid_from_offset, valid_from_time, record_type,
    batch_base_offset, batch_last_offset, life_to_offset, life_to_time, life_ended_by
  FROM rare_history WHERE kind = 'partition'
)
SELECT *,
  CASE WHEN lead(seq) OVER in_order IS NULL THEN life_to_offset
    ELSE lead(valid_from_offset) OVER in_order END AS valid_to_offset,
  CASE WHEN lead(seq) OVER in_order IS NULL THEN life_to_time
    ELSE lead(valid_from_time) OVER in_order END AS valid_to_time,
  lag(seq) OVER in_order IS NULL AS is_first, lag(leader) OVER in_order AS former_leader,
  lag(isr) OVER in_order AS former_isr, lag(replicas) OVER in_order AS former_replicas,
  lag(directories) OVER in_order AS former_directories,
  lag(eligible_leader_replicas) OVER in_order AS former_elr,
  lag(adding_replicas) OVER in_order AS former_adding,
  lag(removing_replicas) OVER in_order AS former_removing
FROM states
WINDOW in_order AS (PARTITION BY cluster, topic_id, partition, life ORDER BY seq)
