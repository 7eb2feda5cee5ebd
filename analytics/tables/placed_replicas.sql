-- Step (kept): every replica at the end of the log, and what it is to its partition, a bit for each
-- thing (`kind_losses.REPLICA_BITS`).
WITH replicas AS (
  SELECT *, element_at(directories, place + 1) AS directory
  FROM (SELECT p.*, posexplode(p.replicas) AS (place, broker) FROM partitions p) e
), alive AS (
  SELECT cluster, broker, log_dirs FROM brokers WHERE NOT fenced AND NOT in_controlled_shutdown
)
SELECT r.cluster, r.topic_id, r.partition, r.place + 1 AS place, r.broker, r.directory,
  r.leader = r.broker AS leads, CAST(array_contains(r.isr, r.broker) AS INT)
  + 2 * CAST(array_contains(r.eligible_leader_replicas, r.broker) AS INT)
  + 4 * CAST(array_contains(r.last_known_elr, r.broker) AS INT)
  + 8 * CAST(array_contains(r.adding_replicas, r.broker) AS INT)
  + 16 * CAST(array_contains(r.removing_replicas, r.broker) AS INT)
  -- A broker that registered before directories were known has none.
  + 32 * CAST(a.broker IS NOT NULL AND r.directory IS DISTINCT FROM 'AAAAAAAAAAAAAAAAAAAAAg' AND (
      size(a.log_dirs) = 0 OR r.directory IS NULL
      OR r.directory IN ('AAAAAAAAAAAAAAAAAAAAAQ', 'AAAAAAAAAAAAAAAAAAAAAA')
      OR array_contains(a.log_dirs, r.directory)) AS INT)
  + 64 * CAST(r.leader = r.broker AS INT) AS replica_bits
FROM replicas r LEFT JOIN alive a ON r.cluster = a.cluster AND r.broker = a.broker
