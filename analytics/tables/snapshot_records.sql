-- One record of a snapshot file.
--
-- order by: cluster, file, offset
--
-- cluster (string): label of the cluster
-- offset (long): offset of the record; in a snapshot its position there
-- timestamp (timestamp): when the record was written; null if outside the years 1 to 9999
-- epoch (int): epoch of the controller that wrote the batch
-- batch_base_offset (long): offset of the first record of the batch
-- file (string): name of the file in the log directory
-- position (long): byte position of the batch in that file
-- control (boolean): whether the quorum itself wrote it, as LEADER_CHANGE
-- type (string): record type as Kafka's dump tool names it; UNKNOWN(n) if not known, or not this
--   version
-- version (int): schema version of the record
-- topic (string): name of the topic, where the record carries it
-- topic_id (string): id of the topic, where the record carries it
-- partition (int): partition, where the record is about one
-- broker (int): broker, where the record is about one
-- payload (string): JSON as the dump tool prints it; null if the value cannot be decoded
-- raw (binary): the record's value, only for records without a payload
SELECT cluster, `offset`, timestamp, epoch, batch_base_offset, file, position, control, type, version,
  topic, topic_id, partition, broker, payload, CASE WHEN payload IS NULL THEN value END AS raw
FROM log_rows WHERE problem IS NULL AND snapshot
