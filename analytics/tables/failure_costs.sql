-- Step: a failure, and the outages that are put down to it. An outage that a directory or a broker
-- caused belongs to the first failure of it that was not over when the outage began: what a
-- controller does about a failure may stand before the record of the failure, and while it lasts,
-- more may follow.
WITH ends AS (
  SELECT cluster, failure, broker, coalesce(directory, '') AS place,
    coalesce(back_offset, 9223372036854775807) AS back
  FROM failures
), ranges AS (
  SELECT *, lag(back) OVER (PARTITION BY cluster, broker, place ORDER BY back) AS back_before
  FROM ends
), owned AS (
  SELECT r.cluster, r.failure, concat(o.topic_id, '/', o.partition) AS of_partition, o.kind,
    o.to_offset IS NULL AS is_open,
    unix_micros(CASE WHEN o.to_offset IS NULL THEN e.end_time ELSE o.to_time END) DIV 1000
      - unix_micros(o.from_time) DIV 1000 AS ms
  FROM outages o JOIN ranges r ON o.cluster = r.cluster AND o.broker = r.broker
    AND coalesce(o.directory, '') = r.place AND o.from_offset <= r.back
    AND o.from_offset > coalesce(r.back_before, -1)
  JOIN log_ends e ON o.cluster = e.cluster
  WHERE o.cause IN ('directory', 'broker')
)
SELECT cluster, failure,
  count(DISTINCT CASE WHEN kind = 'leaderless' THEN of_partition END) AS leaderless,
  sum(CASE WHEN kind = 'leaderless' THEN ms END) AS leaderless_ms,
  max(CASE WHEN kind = 'leaderless' THEN ms END) AS longest_leaderless_ms,
  count(DISTINCT CASE WHEN kind = 'under_min_isr' THEN of_partition END) AS under_min_isr,
  sum(CASE WHEN kind = 'under_min_isr' THEN ms END) AS under_min_isr_ms,
  max(CASE WHEN kind = 'under_min_isr' THEN ms END) AS longest_under_min_isr_ms,
  count(DISTINCT CASE WHEN is_open THEN of_partition END) AS still_short
FROM owned GROUP BY cluster, failure
