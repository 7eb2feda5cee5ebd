-- Partitions differ in little but who their replicas are; what differs makes a kind.
WITH unclean AS (
  SELECT resource_type, resource_name, lower(trim(max(value))) = 'true' AS is_unclean FROM configs
  WHERE name = 'unclean.leader.election.enable' AND valid_to_offset IS NULL
    AND (resource_type = 'topic' OR resource_type = 'broker' AND resource_name = '')
  GROUP BY ALL
)
SELECT topic_id, partition, bits, leader <> -1 AS has_leader,
  least(coalesce(min_insync_replicas, 1), len(bits)) AS min_isr,
  coalesce(own.is_unclean, of_all.is_unclean, false) AS is_unclean,
  EXISTS (FROM features WHERE feature = 'eligible.leader.replicas.version' AND level > 0
    AND valid_to_offset IS NULL) AS has_elr
FROM partitions p
JOIN (
  SELECT topic_id, partition, list(replica_bits ORDER BY place) AS bits FROM placed_replicas GROUP BY ALL
) b USING (topic_id, partition)
LEFT JOIN (SELECT topic_id, min_insync_replicas FROM topics) USING (topic_id)
LEFT JOIN unclean own ON own.resource_type = 'topic' AND own.resource_name = p.topic
LEFT JOIN unclean of_all ON of_all.resource_type = 'broker'
