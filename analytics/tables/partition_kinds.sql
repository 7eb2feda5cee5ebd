-- Step (kept): a partition at the end of the log, and its kind. Partitions differ in little but who
-- their replicas are.
WITH unclean AS (
  SELECT cluster, resource_type, resource_name, lower(trim(max(value))) = 'true' AS is_unclean
  FROM configs
  WHERE name = 'unclean.leader.election.enable' AND valid_to_offset IS NULL
    AND (resource_type = 'topic' OR resource_type = 'broker' AND resource_name = '')
  GROUP BY cluster, resource_type, resource_name
), with_elr AS (
  SELECT DISTINCT cluster FROM features
  WHERE feature = 'eligible.leader.replicas.version' AND level > 0 AND valid_to_offset IS NULL
), replicas AS (
  SELECT cluster, topic_id, partition, transform(array_sort(collect_list(
      named_struct('place', place, 'bits', replica_bits))), each -> each.bits) AS bits
  FROM placed_replicas GROUP BY topic_id, partition, cluster
)
SELECT p.cluster, p.topic_id, p.partition, r.bits, p.leader <> -1 AS has_leader,
  CAST(least(coalesce(t.min_insync_replicas, 1), size(r.bits)) AS BIGINT) AS min_isr,
  coalesce(own.is_unclean, of_all.is_unclean, false) AS is_unclean, e.cluster IS NOT NULL AS has_elr
FROM partitions p
JOIN replicas r ON p.cluster = r.cluster AND p.topic_id = r.topic_id AND p.partition = r.partition
LEFT JOIN topics t ON p.cluster = t.cluster AND p.topic_id = t.topic_id
LEFT JOIN unclean own ON own.resource_type = 'topic' AND own.cluster = p.cluster
  AND own.resource_name = p.topic
LEFT JOIN unclean of_all ON of_all.resource_type = 'broker' AND of_all.cluster = p.cluster
LEFT JOIN with_elr e ON p.cluster = e.cluster
