-- Step (kept): a record about a partition of a plain topic, the state that it leads to, and the one
-- before it. A field is the one of the last record that has it; what snapshots say is compared and
-- changes nothing. The partition epoch rises with every change, the leader epoch with every leader
-- that one names.
WITH said AS (
  SELECT r.cluster, t.topic, r.topic_id, r.partition, r.replay_position, r.`offset`, r.version,
    CASE WHEN r.snapshot THEN 'SNAPSHOT' ELSE r.type END AS record_type,
    r.replay_offset AS valid_from_offset, r.replay_time AS valid_from_time,
    CASE WHEN r.snapshot THEN r.replay_offset ELSE r.batch_base_offset END AS batch_base_offset,
    CASE WHEN r.snapshot THEN r.replay_offset ELSE r.batch_last_offset END AS batch_last_offset,
    r.snapshot AND NOT r.is_base AS is_compared,
    CASE WHEN r.snapshot AND NOT r.is_base THEN r.partition_change END AS said,
    CASE WHEN NOT r.snapshot OR r.is_base THEN r.partition_change END AS own,
    r.partition_change IS NULL OR r.replay_position <= t.begin OR r.replay_position >= t.end AS is_odd,
    t.end, t.valid_to_offset AS removed_offset, t.valid_to_time AS removed_time
  FROM replayed_records r JOIN topic_lives t ON r.cluster = t.cluster AND r.topic_id = t.topic_id
  WHERE r.type IN ('PARTITION_RECORD', 'PARTITION_CHANGE_RECORD')
), own AS (
  SELECT *, CASE WHEN NOT is_compared THEN 1 END AS is_own, own.leader, own.leader_epoch,
    own.partition_epoch, own.leader_recovery_state, own.replicas, own.isr, own.removing_replicas,
    own.adding_replicas, own.directories, own.eligible_leader_replicas, own.last_known_elr
  FROM said
), filled AS (
  SELECT cluster, topic, topic_id, partition, replay_position, `offset`, version, record_type,
    valid_from_offset, valid_from_time, batch_base_offset, batch_last_offset, said, is_compared, is_odd,
    end, removed_offset, removed_time, replicas IS NOT NULL OR directories IS NOT NULL AS is_placed,
    count(is_own) OVER so_far AS seq, count(partition_epoch) OVER so_far AS wholes,
    last_value(leader) IGNORE NULLS OVER so_far AS leader,
    last_value(leader_epoch) IGNORE NULLS OVER so_far + count(leader) OVER so_far - 1 AS leader_epoch,
    last_value(partition_epoch) IGNORE NULLS OVER so_far + count(is_own) OVER so_far - 1
      AS partition_epoch,
    last_value(leader_recovery_state) IGNORE NULLS OVER so_far AS leader_recovery_state,
    last_value(replicas) IGNORE NULLS OVER so_far AS replicas,
    last_value(isr) IGNORE NULLS OVER so_far AS isr,
    last_value(removing_replicas) IGNORE NULLS OVER so_far AS removing_replicas,
    last_value(adding_replicas) IGNORE NULLS OVER so_far AS adding_replicas,
    last_value(directories) IGNORE NULLS OVER so_far AS named_directories,
    last_value(eligible_leader_replicas) IGNORE NULLS OVER so_far AS eligible_leader_replicas,
    last_value(last_known_elr) IGNORE NULLS OVER so_far AS last_known_elr,
    last_value(leader) IGNORE NULLS OVER before AS former_leader,
    last_value(isr) IGNORE NULLS OVER before AS former_isr,
    last_value(replicas) IGNORE NULLS OVER before AS former_replicas,
    last_value(directories) IGNORE NULLS OVER before AS former_named,
    last_value(eligible_leader_replicas) IGNORE NULLS OVER before AS former_elr,
    last_value(adding_replicas) IGNORE NULLS OVER before AS former_adding,
    last_value(removing_replicas) IGNORE NULLS OVER before AS former_removing,
    lead(CASE WHEN NOT is_compared THEN replay_position END) IGNORE NULLS OVER in_order
      AS next_position,
    lead(CASE WHEN NOT is_compared THEN named_struct('offset', valid_from_offset,
      'time', valid_from_time) END) IGNORE NULLS OVER in_order AS next
  FROM own
  WINDOW so_far AS (PARTITION BY cluster, topic_id, partition ORDER BY replay_position, `offset`
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
    before AS (PARTITION BY cluster, topic_id, partition ORDER BY replay_position, `offset`
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    in_order AS (PARTITION BY cluster, topic_id, partition ORDER BY replay_position, `offset`)
)
SELECT * EXCEPT (named_directories, former_named, leader_epoch, partition_epoch, is_odd, is_placed,
    wholes, next),
  CAST(leader_epoch AS INT) AS leader_epoch, CAST(partition_epoch AS INT) AS partition_epoch,
  -- Without directories each replica is somewhere on its broker.
  CASE WHEN size(named_directories) = 0
    THEN transform(replicas, each -> 'AAAAAAAAAAAAAAAAAAAAAA') ELSE named_directories END
    AS directories,
  CASE WHEN size(former_named) = 0
    THEN transform(former_replicas, each -> 'AAAAAAAAAAAAAAAAAAAAAA') ELSE former_named END
    AS former_directories,
  CASE WHEN next IS NULL THEN removed_offset ELSE next.`offset` END AS valid_to_offset,
  CASE WHEN next IS NULL THEN removed_time ELSE next.time END AS valid_to_time,
  -- Only the first record of a partition is a whole one.
  is_odd OR wholes <> 1 OR is_placed AND size(named_directories) NOT IN (0, size(replicas)) AS is_odd
FROM filled
