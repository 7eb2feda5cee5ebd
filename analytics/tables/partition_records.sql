-- Step: a record about a partition of a plain topic. What snapshots say is compared with the state
-- that is reached there.
SELECT r.cluster, t.topic, r.topic_id, r.partition, r.replay_position, r.`offset`, r.version,
  CASE WHEN r.snapshot THEN 'SNAPSHOT' ELSE r.type END AS record_type,
  r.replay_offset AS valid_from_offset, r.replay_time AS valid_from_time,
  CASE WHEN r.snapshot THEN r.replay_offset ELSE r.batch_base_offset END AS batch_base_offset,
  CASE WHEN r.snapshot THEN r.replay_offset ELSE r.batch_last_offset END AS batch_last_offset,
  r.snapshot AND NOT r.is_base AS is_compared,
  r.partition_change.leader, r.partition_change.leader_epoch, r.partition_change.partition_epoch,
  r.partition_change.leader_recovery_state, r.partition_change.replicas, r.partition_change.isr,
  r.partition_change.removing_replicas, r.partition_change.adding_replicas,
  r.partition_change.directories, r.partition_change.eligible_leader_replicas,
  r.partition_change.last_known_elr,
  r.partition_change IS NULL OR r.replay_position <= t.begin OR r.replay_position >= t.end AS is_odd,
  t.end, t.valid_to_offset AS removed_offset, t.valid_to_time AS removed_time
FROM replayed_records r JOIN topic_lives t ON r.cluster = t.cluster AND r.topic_id = t.topic_id
WHERE r.type IN ('PARTITION_RECORD', 'PARTITION_CHANGE_RECORD')
