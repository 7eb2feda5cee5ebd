-- Step (kept): how the cluster came round from each failure. The last of moments counts when no more
-- are to come.
WITH joined AS (
  SELECT f.*, coalesce(p.touched, 0) AS touched, p.partitions,
    CASE WHEN p.gone = p.touched THEN p.last_gone.`offset` END AS gone_offset,
    CASE WHEN p.gone = p.touched THEN p.last_gone.time END AS gone_time,
    CASE WHEN p.touched IS NULL THEN f.detected_offset
      WHEN p.done = p.touched THEN p.last_done.`offset` END AS full_isr_offset,
    CASE WHEN p.touched IS NULL THEN f.detected_time
      WHEN p.done = p.touched THEN p.last_done.time END AS full_isr_time,
    l.moved, l.lost, l.still_lost, l.last_leader.`offset` AS leader_offset,
    l.last_leader.time AS leader_time, c.leaderless, c.leaderless_ms, c.longest_leaderless_ms,
    c.under_min_isr, c.under_min_isr_ms, c.longest_under_min_isr_ms, c.still_short
  FROM failures f
  LEFT JOIN failure_parts p ON f.cluster = p.cluster AND f.failure = p.failure
  LEFT JOIN failure_leaders l ON f.cluster = l.cluster AND f.failure = l.failure
  LEFT JOIN failure_costs c ON f.cluster = c.cluster AND f.failure = c.failure
), closed AS (
  -- Of two ends in one record the first by name.
  SELECT *, coalesce(gone_offset < coalesce(back_offset, 9223372036854775807)
    OR gone_offset = back_offset AND 'replicas_gone' < back_by, false) AS is_gone
  FROM joined
), ended AS (
  SELECT *, CASE WHEN is_gone THEN gone_offset ELSE back_offset END AS closed_offset,
    CASE WHEN is_gone THEN gone_time ELSE back_time END AS closed_time,
    CASE WHEN is_gone THEN 'replicas_gone' ELSE back_by END AS closed_by
  FROM closed
)
SELECT cluster, broker, directory, began_by, detected_offset, detected_time,
  touched AS partitions_touched, coalesce(moved, 0) AS leaders_moved, coalesce(lost, 0) AS leaders_lost,
  coalesce(still_lost, 0) AS leaders_still_lost, leader_offset AS last_leader_offset,
  leader_time AS last_leader_time, leader_offset <= detected_offset AS last_leader_in_same_batch,
  CASE WHEN leader_offset > detected_offset
    THEN unix_micros(leader_time) DIV 1000 - unix_micros(detected_time) DIV 1000 END
    AS time_to_last_leader_ms,
  full_isr_offset, full_isr_time,
  unix_micros(full_isr_time) DIV 1000 - unix_micros(detected_time) DIV 1000 AS time_to_full_isr_ms,
  CASE WHEN closed_offset IS NULL THEN 'open' ELSE 'closed' END AS state, closed_offset, closed_time,
  closed_by, coalesce(partitions, CAST(array() AS ARRAY<STRING>)) AS partitions,
  coalesce(leaderless, 0) AS leaderless, CAST(leaderless_ms AS BIGINT) AS leaderless_ms,
  longest_leaderless_ms, coalesce(under_min_isr, 0) AS under_min_isr,
  CAST(under_min_isr_ms AS BIGINT) AS under_min_isr_ms, longest_under_min_isr_ms,
  coalesce(still_short, 0) AS still_short
FROM ended
