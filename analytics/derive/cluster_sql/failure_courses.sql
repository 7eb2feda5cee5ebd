-- How the cluster came round from each failure. The last of moments counts when no more are to come.
WITH parts AS (
  SELECT failure, sum(touched) AS touched,
    CASE WHEN sum(gone) = sum(touched) THEN max(last_gone_offset) END AS gone_offset,
    CASE WHEN sum(gone) = sum(touched) THEN arg_max_null(last_gone_time, last_gone_offset)
      FILTER (WHERE gone > 0) END AS gone_time,
    CASE WHEN sum(done) = sum(touched) THEN max(last_done_offset) END AS done_offset,
    CASE WHEN sum(done) = sum(touched) THEN arg_max_null(last_done_time, last_done_offset)
      FILTER (WHERE done > 0) END AS done_time
  FROM failure_parts GROUP BY failure
), begun AS (
  SELECT * REPLACE (coalesce(touched, 0) AS touched),
    -- The result changes each replica at most once.
    least(batch, detected_offset - coalesce(touched, 0)) AS since
  FROM failures LEFT JOIN parts USING (failure)
), leaders AS (
  SELECT failure, sum(moved) AS moved, sum(lost) AS lost, sum(still_lost) AS still_lost,
    max(last_leader_offset) AS leader_offset,
    arg_max_null(last_leader_time, last_leader_offset) FILTER (WHERE last_leader_offset IS NOT NULL)
      AS leader_time
  FROM (
    SELECT l.* FROM failure_leaders l JOIN begun USING (failure)
    WHERE since_offset IS NULL OR since_offset >= since
    QUALIFY since_offset IS NULL OR since_offset
      = min(since_offset) OVER (PARTITION BY failure, of_topic, of_partition)
  ) GROUP BY failure
), named AS (
  SELECT failure, list_sort(flatten(list(partitions))) AS partitions
  FROM failure_parts WHERE partitions IS NOT NULL GROUP BY failure
), costs AS (
  SELECT failure, sum(leaderless) AS leaderless, sum(leaderless_ms) AS leaderless_ms,
    max(longest_leaderless_ms) AS longest_leaderless_ms, sum(under_min_isr) AS under_min_isr,
    sum(under_min_isr_ms) AS under_min_isr_ms,
    max(longest_under_min_isr_ms) AS longest_under_min_isr_ms, sum(still_short) AS still_short
  FROM failure_costs GROUP BY failure
)
SELECT broker, directory, began_by, detected_offset, detected_time, touched AS partitions_touched,
  coalesce(moved, 0) AS leaders_moved, coalesce(lost, 0) AS leaders_lost,
  coalesce(still_lost, 0) AS leaders_still_lost,
  leader_offset AS last_leader_offset, leader_time AS last_leader_time,
  leader_offset <= detected_offset AS last_leader_in_same_batch,
  CASE WHEN leader_offset > detected_offset THEN epoch_ms(leader_time) - epoch_ms(detected_time) END
    AS time_to_last_leader_ms,
  CASE WHEN touched = 0 THEN detected_offset ELSE done_offset END AS full_isr_offset,
  CASE WHEN touched = 0 THEN detected_time ELSE done_time END AS full_isr_time,
  epoch_ms(full_isr_time) - epoch_ms(detected_time) AS time_to_full_isr_ms,
  -- Of two ends in one record the first by name.
  (gone_offset, 'replicas_gone') < (or_never(back_offset), coalesce(back_by, '')) AS is_gone,
  CASE WHEN is_gone THEN gone_offset ELSE back_offset END AS closed_offset,
  CASE WHEN is_gone THEN gone_time ELSE back_time END AS closed_time,
  CASE WHEN is_gone THEN 'replicas_gone' ELSE back_by END AS closed_by,
  CASE WHEN closed_offset IS NULL THEN 'open' ELSE 'closed' END AS state,
  coalesce(partitions, []) AS partitions,
  coalesce(leaderless, 0) AS leaderless, leaderless_ms, longest_leaderless_ms,
  coalesce(under_min_isr, 0) AS under_min_isr, under_min_isr_ms, longest_under_min_isr_ms,
  coalesce(still_short, 0) AS still_short
FROM begun LEFT JOIN leaders USING (failure) LEFT JOIN named USING (failure)
LEFT JOIN costs USING (failure)
