-- One topic at the end of the log.
--
-- order by: cluster, topic
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partitions (int): number of partitions
-- replication_factor (int): replicas of partition 0
-- min_insync_replicas (int): in force for it
-- min_insync_replicas_from (string): where that is set: topic, cluster (for all brokers), assumed
--   (nowhere in the log: see the table logs)
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
WITH counts AS (
  SELECT cluster, topic_id, count(*) AS partitions,
    max(CASE WHEN partition = 0 THEN size(replicas) END) AS replication_factor
  FROM partitions GROUP BY cluster, topic_id
), in_force AS (
  SELECT * FROM min_insync WHERE valid_to_offset IS NULL
)
SELECT t.cluster, t.topic, t.topic_id, CAST(coalesce(c.partitions, 0) AS INT) AS partitions, c.replication_factor,
  m.min_insync_replicas, m.min_insync_replicas_from, t.valid_from_offset, t.valid_from_time,
  t.record_type, t.batch_base_offset
FROM topic_history t
LEFT JOIN counts c ON t.cluster = c.cluster AND t.topic_id = c.topic_id
LEFT JOIN in_force m ON t.cluster = m.cluster AND t.topic_id = m.topic_id
WHERE t.valid_to_offset IS NULL
