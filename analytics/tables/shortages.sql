-- Step (kept): an interval in which a partition had no leader, or fewer replicas in sync than
-- required. A state is held against the value in force, which may change within it.
WITH pieces AS (
  SELECT s.cluster, s.topic, s.topic_id, s.partition, s.life, s.seq, m.number, s.batch_last_offset,
    s.leader = -1 AS is_leaderless,
    size(s.isr) < least(coalesce(m.min_insync_replicas, 0), size(s.replicas)) AS is_under_min_isr,
    s.valid_from_offset, s.valid_from_time, m.valid_from_offset AS since_offset,
    m.valid_from_time AS since_time, s.valid_to_offset, s.valid_to_time, m.next_offset, m.next_time,
    coalesce(NOT m.is_first AND m.valid_from_offset > s.valid_from_offset, false) AS is_cut,
    coalesce(m.next_offset < coalesce(s.valid_to_offset, 9223372036854775807), false) AS is_cut_off
  FROM partition_states s LEFT JOIN min_insync m ON s.cluster = m.cluster AND s.topic_id = m.topic_id
    AND (m.is_first OR m.valid_from_offset <= s.valid_from_offset
      OR m.valid_from_offset < coalesce(s.valid_to_offset, 9223372036854775807))
    AND coalesce(m.next_offset, 9223372036854775807) > s.valid_from_offset
  WHERE s.leader = -1 OR s.is_under_replicated
), short AS (
  SELECT * FROM (
    SELECT *, explode(array('leaderless', 'under_min_isr')) AS kind FROM pieces
    WHERE is_leaderless OR is_under_min_isr
  ) k WHERE CASE kind WHEN 'leaderless' THEN is_leaderless ELSE is_under_min_isr END
), chained AS (
  SELECT *, coalesce(lag(seq) OVER in_order = seq AND lag(number) OVER in_order = number - 1
    OR lag(seq) OVER in_order = seq - 1 AND NOT lag(is_cut_off) OVER in_order AND NOT is_cut, false)
    AS goes_on
  FROM short
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, life, kind ORDER BY seq, number)
), bounds AS (
  SELECT cluster, topic, topic_id, partition, life, seq, number, kind, batch_last_offset, is_cut,
    CASE WHEN is_cut THEN since_offset ELSE valid_from_offset END AS from_offset,
    CASE WHEN is_cut THEN since_time ELSE valid_from_time END AS from_time,
    CASE WHEN is_cut_off THEN next_offset ELSE valid_to_offset END AS to_offset,
    CASE WHEN is_cut_off THEN next_time ELSE valid_to_time END AS to_time,
    NOT goes_on AS is_begin, NOT coalesce(lead(goes_on) OVER in_order, false) AS is_end
  FROM chained
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, life, kind ORDER BY seq, number)
), paired AS (
  SELECT *, CASE WHEN is_end THEN to_offset ELSE lead(to_offset) OVER in_order END AS end_offset,
    CASE WHEN is_end THEN to_time ELSE lead(to_time) OVER in_order END AS end_time
  FROM bounds WHERE is_begin OR is_end
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, life, kind ORDER BY seq, number)
)
SELECT cluster, topic, topic_id, partition, life, seq, kind, is_cut, from_offset, from_time,
  end_offset AS to_offset, end_time AS to_time
FROM paired
-- What begins and ends inside one batch was never visible.
WHERE is_begin AND (end_offset IS NULL OR end_offset > batch_last_offset)
