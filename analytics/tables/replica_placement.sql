-- One interval in which the metadata placed a replica in one log directory.
--
-- order by: cluster, topic, topic_id, partition, broker, valid_from_offset
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partition (int): partition of the topic
-- broker (int): broker of the replica
-- directory (string): id of the directory; also Kafka's reserved ids MIGRATING, UNASSIGNED and LOST
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
-- valid_to_offset (long): offset of the record that ended this state; null = still
-- valid_to_time (timestamp): time of that record; null = still
-- ended_by (string): moved (another directory of the broker), replica_removed, topic_deleted,
--   snapshot (known from a snapshot only); null = still
WITH changed AS (
  SELECT cluster, topic, topic_id, partition, life, seq, replicas, directories, former_replicas,
    former_directories, valid_from_offset, valid_from_time, record_type, batch_base_offset,
    life_to_offset, life_to_time, life_ended_by, lead(replicas) OVER in_order AS next_replicas,
    lead(directories) OVER in_order AS next_directories,
    lead(valid_from_offset) OVER in_order AS next_offset,
    lead(valid_from_time) OVER in_order AS next_time, lead(record_type) OVER in_order AS next_type
  FROM partition_states
  WHERE is_first OR is_placement_changed
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, life ORDER BY seq)
), placed AS (
  -- A broker that is listed twice counts once.
  SELECT *, element_at(directories, pos + 1) AS directory,
    CASE WHEN array_contains(former_replicas, broker)
      THEN element_at(former_directories, CAST(array_position(former_replicas, broker) AS INT)) END
      AS former_directory,
    coalesce(array_contains(next_replicas, broker), false) AS is_followed,
    CASE WHEN array_contains(next_replicas, broker)
      THEN element_at(next_directories, CAST(array_position(next_replicas, broker) AS INT)) END
      AS next_directory
  FROM (SELECT c.*, posexplode(c.replicas) AS (pos, broker) FROM changed c) e
  WHERE array_position(replicas, broker) = pos + 1
), bounds AS (
  SELECT *, NOT coalesce(former_directory = directory, false) AS is_begin,
    NOT coalesce(next_directory = directory, false) AS is_end,
    CASE WHEN next_type IS NULL THEN life_to_offset ELSE next_offset END AS to_offset,
    CASE WHEN next_type IS NULL THEN life_to_time ELSE next_time END AS to_time,
    CASE WHEN next_type IS NULL THEN life_ended_by WHEN next_type = 'SNAPSHOT' THEN 'snapshot'
      WHEN is_followed THEN 'moved' ELSE 'replica_removed' END AS how
  FROM placed
), paired AS (
  SELECT *, CASE WHEN is_end THEN to_offset ELSE lead(to_offset) OVER in_order END AS end_offset,
    CASE WHEN is_end THEN to_time ELSE lead(to_time) OVER in_order END AS end_time,
    CASE WHEN is_end THEN how ELSE lead(how) OVER in_order END AS ended_by
  FROM bounds WHERE is_begin OR is_end
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, life, broker ORDER BY seq)
)
SELECT cluster, topic, topic_id, partition, broker, directory, valid_from_offset, valid_from_time,
  record_type, batch_base_offset, end_offset AS valid_to_offset, end_time AS valid_to_time, ended_by
FROM paired WHERE is_begin
