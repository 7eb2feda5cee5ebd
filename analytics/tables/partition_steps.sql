-- Step (kept): a record about a partition of a plain topic, and the state that it leads to. A field
-- is the one of the last record that has it; what snapshots say is compared and changes nothing. The
-- partition epoch rises with every change, the leader epoch with every leader that one names.
WITH said AS (
  SELECT r.cluster, t.topic, r.topic_id, r.partition, r.replay_position, r.`offset`, r.version,
    CASE WHEN r.snapshot THEN 'SNAPSHOT' ELSE r.type END AS record_type, r.replay_offset, r.replay_time,
    CASE WHEN r.snapshot THEN r.replay_offset ELSE r.batch_base_offset END AS batch_base_offset,
    CASE WHEN r.snapshot THEN r.replay_offset ELSE r.batch_last_offset END AS batch_last_offset,
    CASE WHEN r.snapshot AND NOT r.is_base THEN r.partition_change END AS said,
    CASE WHEN NOT r.snapshot OR r.is_base THEN r.partition_change END AS own,
    r.snapshot AND NOT r.is_base AS is_compared, r.partition_change IS NULL
      OR r.replay_position <= t.begin OR r.replay_position >= t.end AS is_odd,
    t.end, t.valid_to_offset, t.valid_to_time
  FROM replayed_records r JOIN topic_lives t ON r.cluster = t.cluster AND r.topic_id = t.topic_id
  WHERE r.type IN ('PARTITION_RECORD', 'PARTITION_CHANGE_RECORD')
), filled AS (
  SELECT cluster, topic, topic_id, partition, replay_position, `offset`, version, record_type,
    replay_offset AS valid_from_offset, replay_time AS valid_from_time, batch_base_offset,
    batch_last_offset, said, is_compared, is_odd, end, valid_to_offset AS removed_offset,
    valid_to_time AS removed_time,
    own.replicas IS NOT NULL OR own.directories IS NOT NULL AS is_placed,
    count(own) OVER so_far AS seq, count(own.partition_epoch) OVER so_far AS wholes,
    last_value(own.leader) IGNORE NULLS OVER so_far AS leader,
    last_value(own.leader_epoch) IGNORE NULLS OVER so_far + count(own.leader) OVER so_far - 1
      AS leader_epoch,
    last_value(own.partition_epoch) IGNORE NULLS OVER so_far + count(own) OVER so_far - 1
      AS partition_epoch,
    last_value(own.leader_recovery_state) IGNORE NULLS OVER so_far AS leader_recovery_state,
    last_value(own.replicas) IGNORE NULLS OVER so_far AS replicas,
    last_value(own.isr) IGNORE NULLS OVER so_far AS isr,
    last_value(own.removing_replicas) IGNORE NULLS OVER so_far AS removing_replicas,
    last_value(own.adding_replicas) IGNORE NULLS OVER so_far AS adding_replicas,
    last_value(own.directories) IGNORE NULLS OVER so_far AS named_directories,
    last_value(own.eligible_leader_replicas) IGNORE NULLS OVER so_far AS eligible_leader_replicas,
    last_value(own.last_known_elr) IGNORE NULLS OVER so_far AS last_known_elr
  FROM said
  WINDOW so_far AS (PARTITION BY cluster, topic_id, partition ORDER BY replay_position, `offset`
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT * EXCEPT (named_directories, leader_epoch, partition_epoch, is_odd, is_placed, wholes),
  CAST(leader_epoch AS INT) AS leader_epoch, CAST(partition_epoch AS INT) AS partition_epoch,
  -- Without directories each replica is somewhere on its broker.
  CASE WHEN size(named_directories) = 0
    THEN transform(replicas, each -> 'AAAAAAAAAAAAAAAAAAAAAA') ELSE named_directories END
    AS directories,
  -- Only the first record of a partition is a whole one.
  is_odd OR wholes <> 1 OR is_placed AND size(named_directories) NOT IN (0, size(replicas)) AS is_odd
FROM filled
