-- Step: the records of what is followed one by one, in the order of the replay: topics that are not
-- plain, with what is said to all topics.
WITH named AS (
  SELECT r.cluster, r.topic_id, l.topic, min(l.replay_position) AS begin
  FROM rare_topics r JOIN few_records l
    ON r.cluster = l.cluster AND r.topic_id = l.topic_id AND l.type = 'TOPIC_RECORD'
  GROUP BY r.cluster, r.topic_id, l.topic
), about_topics AS (
  SELECT cluster, topic, replay_position, replay_offset, snapshot, `offset`, replay_time,
    batch_base_offset, batch_last_offset, file, type, value
  FROM few_records
  WHERE type = 'CLEAR_ELR_RECORD' OR type = 'CONFIG_RECORD'
    AND get_json_object(payload, '$.data.name') IN ('min.insync.replicas')
    AND (topic IS NOT NULL OR get_json_object(payload, '$.data.resourceType') IN ('4')
      AND get_json_object(payload, '$.data.resourceName') IN (''))
), rows AS (
  SELECT r.cluster, concat('topic/', r.topic_id) AS key, l.replay_position, l.replay_offset, l.snapshot, l.`offset`,
    l.replay_time, l.batch_base_offset, l.batch_last_offset, l.file, l.type, l.value, false AS is_base
  FROM rare_topics r JOIN replayed_records l ON r.cluster = l.cluster AND r.topic_id = l.topic_id
  WHERE l.type IN ('TOPIC_RECORD', 'REMOVE_TOPIC_RECORD', 'PARTITION_RECORD', 'PARTITION_CHANGE_RECORD')
  UNION ALL
  SELECT r.cluster, concat('topic/', r.topic_id), l.replay_position, l.replay_offset, l.snapshot, l.`offset`,
    l.replay_time, l.batch_base_offset, l.batch_last_offset, l.file, l.type, l.value, false
  FROM rare_topics r JOIN about_topics l ON r.cluster = l.cluster
  WHERE coalesce(l.topic, '') = ''
  UNION ALL
  SELECT n.cluster, concat('topic/', n.topic_id), l.replay_position, l.replay_offset, l.snapshot, l.`offset`,
    l.replay_time, l.batch_base_offset, l.batch_last_offset, l.file, l.type, l.value, false
  FROM named n JOIN about_topics l
    ON n.cluster = l.cluster AND n.topic = l.topic AND l.replay_position >= n.begin
  UNION ALL
  SELECT r.cluster, concat('topic/', r.topic_id), s.position, s.`offset`, true, -1, s.time, s.`offset`, s.`offset`,
    s.file, 'SNAPSHOT', NULL, s.is_base
  FROM rare_topics r JOIN sync_points s ON r.cluster = s.cluster
  UNION ALL
  SELECT r.cluster, concat('broker/', r.broker), l.replay_position, l.replay_offset, l.snapshot,
    l.`offset`, l.replay_time, l.batch_base_offset, l.batch_last_offset, l.file, l.type, l.value,
    false
  FROM rare_brokers r JOIN few_records l ON r.cluster = l.cluster AND r.broker = l.broker
  WHERE l.type IN ('REGISTER_BROKER_RECORD', 'BROKER_REGISTRATION_CHANGE_RECORD',
    'FENCE_BROKER_RECORD', 'UNFENCE_BROKER_RECORD', 'UNREGISTER_BROKER_RECORD')
  UNION ALL
  SELECT r.cluster, concat('broker/', r.broker), s.position, s.`offset`, true, -1, s.time,
    s.`offset`, s.`offset`, s.file, 'SNAPSHOT', NULL, s.is_base
  FROM rare_brokers r JOIN sync_points s ON r.cluster = s.cluster
)
SELECT r.*, l.min_insync_replicas AS assumed, l.min_insync_replicas_from AS assumed_from
FROM rows r JOIN log_layouts l ON r.cluster = l.cluster
