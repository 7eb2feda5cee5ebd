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
--
-- A state is held against the value in force, which may change within it.
WITH pieces AS (
  SELECT s.cluster, s.topic, s.topic_id, s.partition, s.life, s.seq, s.batch_last_offset, s.leader,
    s.isr, s.replicas, m.seq AS piece, m.min_insync_replicas,
    coalesce(NOT m.is_first AND m.valid_from_offset > s.valid_from_offset, false) AS is_cut,
    s.valid_from_offset, s.valid_from_time, m.valid_from_offset AS since_offset,
    m.valid_from_time AS since_time, s.valid_to_offset, s.valid_to_time
  FROM partition_states s LEFT JOIN min_insync m ON s.cluster = m.cluster AND s.topic_id = m.topic_id
    AND (m.is_first OR m.valid_from_offset <= s.valid_from_offset
      OR m.valid_from_offset < coalesce(s.valid_to_offset, 9223372036854775807))
    AND coalesce(m.next_offset, 9223372036854775807) > s.valid_from_offset
), ended AS (
  SELECT *, CASE WHEN is_cut THEN since_offset ELSE valid_from_offset END AS from_offset,
    CASE WHEN is_cut THEN since_time ELSE valid_from_time END AS from_time,
    lead(is_cut) OVER in_order AS next_is_cut, lead(since_offset) OVER in_order AS next_offset,
    lead(since_time) OVER in_order AS next_time
  FROM pieces
  WINDOW in_order AS (PARTITION BY cluster, topic_id, partition, life ORDER BY seq, piece)
), short AS (
  SELECT cluster, topic, topic_id, partition, life, seq, piece, batch_last_offset, is_cut,
    from_offset, from_time, CASE WHEN next_is_cut THEN next_offset ELSE valid_to_offset END AS to_offset,
    CASE WHEN next_is_cut THEN next_time ELSE valid_to_time END AS to_time,
    kind, CASE kind WHEN 'leaderless' THEN leader = -1
      ELSE size(isr) < least(coalesce(min_insync_replicas, 0), size(replicas)) END AS is_short
  FROM (SELECT *, explode(array('leaderless', 'under_min_isr')) AS kind FROM ended) k
), bounds AS (
  SELECT *, is_short AND NOT coalesce(lag(is_short) OVER in_order, false) AS is_begin,
    is_short AND NOT coalesce(lead(is_short) OVER in_order, false) AS is_end
  FROM short
  WINDOW in_order AS (PARTITION BY cluster, topic_id, partition, life, kind ORDER BY seq, piece)
), paired AS (
  SELECT *, CASE WHEN is_end THEN to_offset ELSE lead(to_offset) OVER in_order END AS end_offset,
    CASE WHEN is_end THEN to_time ELSE lead(to_time) OVER in_order END AS end_time
  FROM bounds WHERE is_begin OR is_end
  WINDOW in_order AS (PARTITION BY cluster, topic_id, partition, life, kind ORDER BY seq, piece)
)
SELECT p.cluster, p.topic, p.topic_id, p.partition, p.kind, p.from_offset, p.from_time,
  p.end_offset AS to_offset, p.end_time AS to_time,
  CASE WHEN p.end_offset IS NOT NULL THEN unix_micros(p.end_time) - unix_micros(p.from_time) END
    DIV 1000 AS duration_ms,
  CASE WHEN p.is_cut OR l.why IS NULL THEN 'controller' WHEN l.why IN ('directory', 'unknown') THEN l.why
    ELSE 'broker' END AS cause,
  CASE WHEN NOT p.is_cut THEN l.broker END AS broker,
  CASE WHEN NOT p.is_cut AND l.why = 'directory' THEN l.directory END AS directory
FROM paired p
LEFT JOIN lost_replicas l ON l.of = 'outage' AND p.cluster = l.cluster AND p.topic_id = l.topic_id
  AND p.partition = l.partition AND p.life = l.life AND p.seq = l.seq
-- What begins and ends inside one batch was never visible.
WHERE p.is_begin AND (p.end_offset IS NULL OR p.end_offset > p.batch_last_offset)
