-- Step (kept): the existence of a topic whose story is plain: created once, removed at most once, and
-- in all snapshots of that time. Positions are those of the replay.
WITH created AS (
  SELECT cluster, topic, topic_id, replay_offset AS valid_from_offset, replay_time AS valid_from_time,
    CASE WHEN snapshot THEN 'SNAPSHOT' ELSE type END AS record_type,
    CASE WHEN snapshot THEN replay_offset ELSE batch_base_offset END AS batch_base_offset,
    CASE WHEN snapshot THEN replay_position - 1 ELSE replay_position END AS begin,
    count(*) OVER (PARTITION BY cluster, topic_id) AS times
  FROM few_records WHERE type = 'TOPIC_RECORD' AND (NOT snapshot OR is_base)
), removed AS (
  SELECT cluster, topic_id, count(*) AS times, max(replay_position) AS position,
    max(replay_offset) AS valid_to_offset, max(replay_time) AS valid_to_time
  FROM few_records WHERE type = 'REMOVE_TOPIC_RECORD' AND NOT snapshot
  GROUP BY cluster, topic_id
), lives AS (
  SELECT c.cluster, c.topic, c.topic_id, c.valid_from_offset, c.valid_from_time, c.record_type,
    c.batch_base_offset, r.valid_to_offset, r.valid_to_time, c.begin,
    coalesce(r.position, 9223372036854775807) AS end
  FROM created c LEFT JOIN removed r ON c.cluster = r.cluster AND c.topic_id = r.topic_id
  WHERE c.times = 1 AND coalesce(r.times, 1) = 1 AND coalesce(r.position, c.begin + 1) > c.begin
), listed AS (
  SELECT s.cluster, s.topic_id, count(*) AS times,
    count(DISTINCT CASE WHEN s.topic = l.topic AND s.replay_position > l.begin
      AND s.replay_position < l.end THEN s.replay_position END) AS right_times
  FROM few_records s JOIN lives l ON s.cluster = l.cluster AND s.topic_id = l.topic_id
  WHERE s.type = 'TOPIC_RECORD' AND s.snapshot AND NOT s.is_base
  GROUP BY s.cluster, s.topic_id
), met AS (
  SELECT l.cluster, l.topic_id, count(*) AS times
  FROM lives l JOIN sync_points p
    ON l.cluster = p.cluster AND p.position > l.begin AND p.position < l.end AND NOT p.is_base
  GROUP BY l.cluster, l.topic_id
)
SELECT l.* FROM lives l
LEFT JOIN listed s ON l.cluster = s.cluster AND l.topic_id = s.topic_id
LEFT JOIN met m ON l.cluster = m.cluster AND l.topic_id = m.topic_id
WHERE coalesce(s.times, 0) = coalesce(m.times, 0)
  AND coalesce(s.right_times, 0) = coalesce(m.times, 0)
