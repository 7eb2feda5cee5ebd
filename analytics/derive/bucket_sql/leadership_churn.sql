SELECT any_value(topic) AS topic, topic_id, partition, count(*) AS changes,
  count_if(leader = -1) AS to_none,
  arg_min_null(valid_from_time, valid_from_offset) AS first_time,
  arg_max_null(valid_from_time, valid_from_offset) AS last_time
FROM leadership WHERE cause NOT IN ('created', 'snapshot')
GROUP BY topic_id, partition
