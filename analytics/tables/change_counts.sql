-- One cause of changes in one stretch of time, a two-hundredth of the log or more.
--
-- order by: cluster, what, from_time, change, cause
--
-- cluster (string): label of the cluster
-- what (string): what changed: leader or isr
-- from_time (timestamp): begin of the stretch of time; null = the times are not known
-- change (string): of ISRs: shrink, expand or replace; null for leaders
-- cause (string): as in leadership and isr_changes
-- changes (long): how many there were
-- to_none (long): how many of these left a partition without a leader
WITH changes AS (
  -- The begin of a partition, or of the log, is not a change of its leader.
  SELECT cluster, 'leader' AS what, valid_from_time AS time, CAST(NULL AS STRING) AS change, cause,
    leader = -1 AS to_none
  FROM leadership WHERE cause NOT IN ('created', 'snapshot')
  UNION ALL
  SELECT cluster, 'isr', time, change, cause, false FROM isr_changes
)
SELECT cluster, what, timestamp_micros(stretch) AS from_time, change, cause, count(*) AS changes,
  count_if(to_none) AS to_none
FROM (
  SELECT c.*, unix_micros(c.time) - pmod(unix_micros(c.time), e.stretch_ms * 1000) AS stretch
  FROM changes c JOIN log_ends e ON c.cluster = e.cluster
) s GROUP BY cluster, what, stretch, change, cause
