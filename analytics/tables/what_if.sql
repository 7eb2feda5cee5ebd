-- One online directory or one broker, and what its failure at the end of the log would do, as
-- `jbodlab what-if` tells for one of them.
--
-- order by: cluster, scope, broker, directory
--
-- cluster (string): label of the cluster
-- scope (string): directory or broker
-- broker (int): id of the broker
-- directory (string): id of the directory; null for a broker
-- replicas (long): replicas placed there
-- only_copies (long): of partitions without any other replica
-- leaderless (long): partitions that would be without a leader, and have one now
-- under_min_isr (long): that would have too few replicas in sync, and have enough now
-- leaders_moved (long): that another replica would lead
-- unclean (long): of these, by one that was not in sync: records would be lost
--
-- The effect of a lost replica on a partition of a kind is decided as in a controller, by
-- `jbodlab.what_if.kinds`; it is in `kind_losses`.
WITH lost AS (
  SELECT r.cluster, r.broker, r.directory, l.only_copies, l.leaderless, l.under_min_isr, l.leaders_moved,
    l.unclean
  FROM placed_replicas r
  JOIN partition_kinds k
    ON r.cluster = k.cluster AND r.topic_id = k.topic_id AND r.partition = k.partition
  JOIN kind_losses l ON k.bits = l.bits AND k.has_leader = l.has_leader AND k.min_isr = l.min_isr
    AND k.is_unclean = l.is_unclean AND k.has_elr = l.has_elr AND r.place = l.place
)
SELECT o.cluster, o.scope, o.broker, o.directory, count(l.broker) AS replicas,
  sum(CAST(l.only_copies AS INT)) AS only_copies, sum(CAST(l.leaderless AS INT)) AS leaderless,
  sum(CAST(l.under_min_isr AS INT)) AS under_min_isr,
  sum(CAST(l.leaders_moved AS INT)) AS leaders_moved,
  sum(CAST(l.unclean AS INT)) AS unclean
FROM online_places o LEFT JOIN lost l
  ON o.cluster = l.cluster AND o.broker = l.broker
  AND (o.scope = 'broker' OR o.directory = l.directory)
GROUP BY o.cluster, o.scope, o.broker, o.directory
