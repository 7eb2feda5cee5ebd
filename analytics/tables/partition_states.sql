-- Step (kept): a state of a partition, with the end of its life: those of plain topics, and those
-- that the fold of single records gives.
SELECT s.cluster, s.topic, s.topic_id, s.partition, s.seq, 1 AS life, s.leader, s.leader_epoch,
  s.partition_epoch, s.leader_recovery_state, s.replicas, s.isr, s.removing_replicas,
  s.adding_replicas, s.directories, s.eligible_leader_replicas, s.last_known_elr,
  s.valid_from_offset, s.valid_from_time, s.record_type, s.batch_base_offset, s.batch_last_offset,
  CASE WHEN lead(s.seq) OVER in_order IS NULL THEN s.removed_offset
    ELSE lead(s.valid_from_offset) OVER in_order END AS valid_to_offset,
  CASE WHEN lead(s.seq) OVER in_order IS NULL THEN s.removed_time
    ELSE lead(s.valid_from_time) OVER in_order END AS valid_to_time,
  s.removed_offset AS life_to_offset, s.removed_time AS life_to_time,
  CASE WHEN s.removed_offset IS NOT NULL THEN 'topic_deleted' END AS life_ended_by
FROM partition_steps s
LEFT ANTI JOIN rare_topics r ON s.cluster = r.cluster AND s.topic_id = r.topic_id
WHERE NOT s.is_compared
WINDOW in_order AS (PARTITION BY s.cluster, s.topic_id, s.partition ORDER BY s.seq)
UNION ALL
SELECT cluster, topic, topic_id, partition, seq, life, leader, leader_epoch, partition_epoch,
  leader_recovery_state, replicas, isr, removing_replicas, adding_replicas, directories,
  eligible_leader_replicas, last_known_elr, valid_from_offset, valid_from_time, record_type,
  batch_base_offset, batch_last_offset, valid_to_offset, valid_to_time, life_to_offset,
  life_to_time, life_ended_by
FROM rare_history WHERE kind = 'partition'
