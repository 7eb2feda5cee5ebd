-- Every replica at the end of the log, and what it is to its partition, a bit for each thing
-- (`what_if.REPLICA_BITS`).
WITH replicas AS (
  SELECT *, unnest(replicas) AS broker, generate_subscripts(replicas, 1) AS place,
    unnest(list_resize(directories, len(replicas))) AS directory
  FROM partitions
), alive AS (
  SELECT broker, log_dirs FROM brokers WHERE NOT fenced AND NOT in_controlled_shutdown
)
SELECT topic_id, partition, place, r.broker, directory,
  list_contains(isr, r.broker)::INT
  + 2 * list_contains(eligible_leader_replicas, r.broker)::INT
  + 4 * list_contains(last_known_elr, r.broker)::INT
  + 8 * list_contains(adding_replicas, r.broker)::INT
  + 16 * list_contains(removing_replicas, r.broker)::INT
  -- A broker that registered before directories were known has none.
  + 32 * (a.broker IS NOT NULL AND directory IS DISTINCT FROM lost() AND (
      len(coalesce(log_dirs, [])) = 0 OR directory IS NULL OR directory IN (unassigned(), migrating())
      OR list_contains(log_dirs, directory)))::INT
  + 64 * (leader = r.broker)::INT AS replica_bits
FROM replicas r LEFT JOIN alive a ON r.broker = a.broker
