-- The begin of a partition, or of the log, is not a change of its leader.
SELECT what, make_timestamptz(stretch(epoch_us(time))) AS from_time, change, cause,
  count(*) AS changes, count_if(to_none) AS to_none
FROM (
  SELECT 'leader' AS what, valid_from_time AS time, NULL AS change, cause, leader = -1 AS to_none
  FROM leadership WHERE cause NOT IN ('created', 'snapshot')
  UNION ALL
  SELECT 'isr', time, change, cause, false FROM isr_changes
) GROUP BY ALL
