-- One existence of one topic.
--
-- order by: cluster, topic, valid_from_offset
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
-- valid_to_offset (long): offset of the record that ended this state; null = still
-- valid_to_time (timestamp): time of that record; null = still
SELECT l.cluster, l.topic, l.topic_id, l.valid_from_offset, l.valid_from_time, l.record_type,
  l.batch_base_offset, l.valid_to_offset, l.valid_to_time
FROM topic_lives l
LEFT ANTI JOIN rare_topics r ON l.cluster = r.cluster AND l.topic_id = r.topic_id
UNION ALL
SELECT cluster, topic, topic_id, valid_from_offset, valid_from_time, record_type, batch_base_offset,
  valid_to_offset, valid_to_time
FROM rare_history WHERE kind = 'topic'
