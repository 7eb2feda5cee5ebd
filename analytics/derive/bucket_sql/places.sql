SELECT broker, directory, count(*) AS replicas, count_if(leader = broker) AS leaders,
  count_if(place = 1) AS preferred_leaders
FROM (
  SELECT leader, unnest(replicas) AS broker, generate_subscripts(replicas, 1) AS place,
    unnest(list_resize(directories, len(replicas))) AS directory
  FROM partitions
) GROUP BY broker, directory
