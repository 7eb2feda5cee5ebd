-- One online directory or one broker, and its share of the replicas at the end of the log.
--
-- order by: cluster, scope, broker, directory
--
-- cluster (string): label of the cluster
-- scope (string): directory (compared within its broker) or broker
-- broker (int): id of the broker
-- directory (string): id of the directory; null for a broker
-- replicas (long): replicas placed there
-- leaders (long): partitions led there
-- preferred_leaders (long): partitions whose first replica is there
-- share_of_replicas (double): replicas there by all of the same scope, 0 to 1
-- mean_replicas (double): mean over its peers
-- deviation (double): replicas / mean - 1; null where the mean is 0
-- mean_leaders (double): mean of leaders over its peers
-- leader_deviation (double): leaders / mean - 1; null where the mean is 0
WITH places AS (
  SELECT cluster, broker, directory, count(*) AS replicas, count_if(leads) AS leaders,
    count_if(place = 1) AS preferred_leaders
  FROM placed_replicas GROUP BY cluster, broker, directory
), summed AS (
  SELECT o.cluster, o.scope, o.broker, o.directory,
    CAST(coalesce(sum(p.replicas), 0) AS BIGINT) AS replicas,
    CAST(coalesce(sum(p.leaders), 0) AS BIGINT) AS leaders,
    CAST(coalesce(sum(p.preferred_leaders), 0) AS BIGINT) AS preferred_leaders
  FROM online_places o LEFT JOIN places p ON o.cluster = p.cluster AND o.broker = p.broker
    AND (o.scope = 'broker' OR o.directory = p.directory)
  GROUP BY o.cluster, o.scope, o.broker, o.directory
), compared AS (
  SELECT *, sum(replicas) OVER peers AS total, avg(replicas) OVER peers AS mean_replicas,
    avg(leaders) OVER peers AS mean_leaders
  FROM summed
  WINDOW peers AS (PARTITION BY cluster, scope, CASE WHEN scope = 'directory' THEN broker END)
)
SELECT cluster, scope, broker, directory, replicas, leaders, preferred_leaders,
  CASE WHEN total > 0 THEN CAST(replicas AS DOUBLE) / total END AS share_of_replicas, mean_replicas,
  CASE WHEN mean_replicas > 0 THEN replicas / mean_replicas - 1 END AS deviation, mean_leaders,
  CASE WHEN mean_leaders > 0 THEN leaders / mean_leaders - 1 END AS leader_deviation
FROM compared
