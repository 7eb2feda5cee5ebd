SELECT *, CASE WHEN total > 0 THEN replicas / total END AS share_of_replicas,
  CASE WHEN mean_replicas > 0 THEN replicas / mean_replicas - 1 END AS deviation,
  CASE WHEN mean_leaders > 0 THEN leaders / mean_leaders - 1 END AS leader_deviation
FROM (
  SELECT *, sum(replicas) OVER peers AS total, avg(replicas) OVER peers AS mean_replicas,
    avg(leaders) OVER peers AS mean_leaders
  FROM (
    SELECT scope, o.broker, o.directory, coalesce(sum(replicas), 0) AS replicas,
      coalesce(sum(leaders), 0) AS leaders, coalesce(sum(preferred_leaders), 0) AS preferred_leaders
    FROM online_places o LEFT JOIN places p
      ON o.broker = p.broker AND (scope = 'broker' OR o.directory = p.directory)
    GROUP BY scope, o.broker, o.directory
  ) WINDOW peers AS (PARTITION BY scope, CASE WHEN scope = 'directory' THEN broker END)
)
