-- Step: a state of a partition, the end of its life, and the state before it in the same life:
-- of plain topics, and of those that the fold of single records gives.
WITH rare AS (
  SELECT *, lag(isr) OVER (PARTITION BY topic_id, partition, cluster, life ORDER BY seq) AS former_isr
  FROM rare_history WHERE kind = 'partition'
), states AS (
  SELECT s.cluster, s.topic, s.topic_id, s.partition, s.seq, 1 AS life, s.leader, s.leader_epoch,
    s.partition_epoch, s.leader_recovery_state, s.replicas, s.isr, s.removing_replicas,
    s.adding_replicas, s.directories, s.eligible_leader_replicas, s.last_known_elr,
    s.valid_from_offset, s.valid_from_time, s.record_type, s.batch_base_offset, s.batch_last_offset,
    s.removed_offset AS life_to_offset, s.removed_time AS life_to_time,
    CASE WHEN s.removed_offset IS NOT NULL THEN 'topic_deleted' END AS life_ended_by,
    s.valid_to_offset, s.valid_to_time, s.seq = 1 AS is_first, s.former_leader, s.former_isr,
    s.former_replicas, s.former_directories, s.former_elr, s.former_adding, s.former_removing,
    s.isr_joined, s.isr_left, s.is_isr_changed, s.is_placement_changed
  FROM partition_steps s
  LEFT ANTI JOIN rare_topics r ON s.cluster = r.cluster AND s.topic_id = r.topic_id
  WHERE NOT s.is_compared
  UNION ALL
  SELECT cluster, topic, topic_id, partition, row_number() OVER in_order, life, leader, leader_epoch,
    partition_epoch, leader_recovery_state, replicas, isr, removing_replicas, adding_replicas, directories,
    eligible_leader_replicas, last_known_elr, valid_from_offset, valid_from_time, record_type,
    batch_base_offset, batch_last_offset, life_to_offset, life_to_time, life_ended_by,
    CASE WHEN lead(seq) OVER in_order IS NULL THEN life_to_offset
      ELSE lead(valid_from_offset) OVER in_order END,
    CASE WHEN lead(seq) OVER in_order IS NULL THEN life_to_time
      ELSE lead(valid_from_time) OVER in_order END,
    lag(seq) OVER in_order IS NULL, lag(leader) OVER in_order, former_isr,
    lag(replicas) OVER in_order, lag(directories) OVER in_order,
    lag(eligible_leader_replicas) OVER in_order, lag(adding_replicas) OVER in_order,
    lag(removing_replicas) OVER in_order, filter(isr, each -> NOT array_contains(former_isr, each)),
    filter(former_isr, each -> NOT array_contains(isr, each)), coalesce(isr <> former_isr, false),
    coalesce(replicas <> lag(replicas) OVER in_order OR directories <> lag(directories) OVER in_order,
      false)
  FROM rare
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, life ORDER BY seq)
)
SELECT *, size(isr) < size(replicas) AS is_under_replicated,
  leader NOT IN (-1, CASE WHEN size(replicas) > 0 THEN element_at(replicas, 1) ELSE -1 END)
    AS is_not_preferred
FROM states
