-- One replica that was created without a directory, and how long it had none.
--
-- order by: cluster, topic, partition, broker, created_offset
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partition (int): partition of the topic
-- broker (int): broker of the replica
-- created_offset (long): offset of the record that created it
-- created_time (timestamp): time of that record
-- assigned_offset (long): offset of the record that named its directory; null = none
-- assigned_time (timestamp): time of that record
-- directory (string): the directory; null = none was named so far, or it was gone
-- lag_ms (long): milliseconds between the two; null = none was named
WITH placed AS (
  SELECT *, ended_by = 'moved' AND lead(valid_from_offset) OVER in_order = valid_to_offset AS goes_on,
    lead(valid_from_offset) OVER in_order AS next_offset,
    lead(valid_from_time) OVER in_order AS next_time, lead(directory) OVER in_order AS next_directory
  FROM replica_placement
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, broker ORDER BY valid_from_offset)
)
SELECT cluster, topic, topic_id, partition, broker, valid_from_offset AS created_offset,
  valid_from_time AS created_time, CASE WHEN goes_on THEN next_offset END AS assigned_offset,
  CASE WHEN goes_on THEN next_time END AS assigned_time,
  CASE WHEN goes_on THEN next_directory END AS directory,
  CASE WHEN goes_on THEN unix_micros(next_time) DIV 1000 - unix_micros(valid_from_time) DIV 1000 END
    AS lag_ms
FROM placed WHERE directory = 'AAAAAAAAAAAAAAAAAAAAAQ'
