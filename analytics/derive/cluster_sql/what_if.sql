-- The effect of a lost replica on a partition of a kind is decided as in a controller, by
-- `jbodlab.what_if.loss`; it is in `kind_losses`.
WITH lost AS (
  SELECT r.broker, r.directory, l.*
  FROM placed_replicas r JOIN partition_kinds USING (topic_id, partition)
  JOIN kind_losses l USING (bits, has_leader, min_isr, is_unclean, has_elr, place)
)
SELECT scope, o.broker, o.directory, count(l.broker) AS replicas,
  count_if(only_copies) AS only_copies, count_if(leaderless) AS leaderless,
  count_if(under_min_isr) AS under_min_isr, count_if(leaders_moved) AS leaders_moved,
  count_if(unclean) AS unclean
FROM online_places o LEFT JOIN lost l
  ON o.broker = l.broker AND (scope = 'broker' OR o.directory = l.directory)
GROUP BY scope, o.broker, o.directory
