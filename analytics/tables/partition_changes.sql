-- Step (kept): a state of a partition beside the one before it in the same life of the partition.
SELECT *, lag(seq) OVER in_order IS NULL AS is_first, lag(leader) OVER in_order AS former_leader,
  lag(isr) OVER in_order AS former_isr, lag(replicas) OVER in_order AS former_replicas,
  lag(directories) OVER in_order AS former_directories,
  lag(eligible_leader_replicas) OVER in_order AS former_elr,
  lag(adding_replicas) OVER in_order AS former_adding,
  lag(removing_replicas) OVER in_order AS former_removing
FROM partition_states
WINDOW in_order AS (PARTITION BY cluster, topic_id, partition, life ORDER BY seq)
