-- The log that was replayed, and what was assumed where it says nothing.
--
-- order by: cluster, source
--
-- cluster (string): label of the cluster
-- source (string): its directory
-- start_offset (long): first offset of its segments; null = there are none
-- replay_from (long): offset from which on states are known: 0, or a snapshot's end
-- replay_from_time (timestamp): time of that snapshot; null = the log is known from its begin
-- end_offset (long): the offset behind the last record
-- size_bytes (long): bytes of segments and snapshots
-- snapshots (int): complete snapshots
-- min_insync_replicas (int): what counts for topics for which the log sets nothing
-- min_insync_replicas_from (string): who says so: an option, a file, Kafka's default
SELECT cluster, source, start_offset, replay_from, replay_from_time, end_offset, size_bytes, snapshots,
  min_insync_replicas, min_insync_replicas_from
FROM log_layouts
