-- One interval in which a partition had no leader, or fewer replicas in sync than required.
--
-- order by: cluster, from_offset, topic, partition, kind
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partition (int): partition of the topic
-- kind (string): leaderless or under_min_isr; both may hold at once, in two rows
-- from_offset (long): offset of the record that began it
-- from_time (timestamp): time of that record
-- to_offset (long): offset of the record that ended it; null = still
-- to_time (timestamp): time of that record; null = still
-- duration_ms (long): milliseconds from begin to end; null = still
-- cause (string): directory (a replica's log directory went offline), broker (one was fenced,
--   stopping or gone), controller (no replica was lost: creation, configuration, reassignment),
--   unknown (a replica fell behind)
-- broker (int): broker of the lost replica; null if the cause is controller
-- directory (string): the directory that went offline, if that is the cause
SELECT p.cluster, p.topic, p.topic_id, p.partition, p.kind, p.from_offset, p.from_time, p.to_offset,
  p.to_time, CASE WHEN p.to_offset IS NOT NULL THEN unix_micros(p.to_time) - unix_micros(p.from_time) END
    DIV 1000 AS duration_ms,
  CASE WHEN p.is_cut OR l.why IS NULL THEN 'controller' WHEN l.why IN ('directory', 'unknown') THEN l.why
    ELSE 'broker' END AS cause,
  CASE WHEN NOT p.is_cut THEN l.broker END AS broker,
  CASE WHEN NOT p.is_cut AND l.why = 'directory' THEN l.directory END AS directory
FROM shortages p
LEFT JOIN lost_replicas l ON l.of = 'outage' AND p.cluster = l.cluster AND p.topic_id = l.topic_id
  AND p.partition = l.partition AND p.life = l.life AND p.seq = l.seq
