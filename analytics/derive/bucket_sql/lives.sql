-- The life of a partition is the time in which it has replicas anywhere. Partitions of a topic mostly
-- begin and end together, so that equal lives are counted.
SELECT topic, topic_id, from_time, to_time, count(*) AS count
FROM (
  SELECT any_value(topic) AS topic, topic_id, partition, min(valid_from_time) AS from_time,
    max(CASE WHEN valid_to_offset IS NULL THEN log_end() ELSE valid_to_time END) AS to_time
  FROM replica_placement GROUP BY topic_id, partition
) GROUP BY topic, topic_id, from_time, to_time
