-- An outage that a directory or a broker caused belongs to the first failure of it that was not
-- over when the outage began: what a controller does about a failure may stand before the record of
-- the failure, and while it lasts, more may follow.
WITH owned AS (
  SELECT f.failure, o.topic_id, o.partition, o.kind, o.to_offset IS NULL AS is_open,
    epoch_ms(CASE WHEN o.to_offset IS NULL THEN log_end() ELSE o.to_time END) - epoch_ms(o.from_time)
      AS ms
  FROM (SELECT *, coalesce(directory, '') AS place FROM outages
    WHERE cause IN ('directory', 'broker')) o
  ASOF JOIN (SELECT *, coalesce(directory, '') AS place, or_never(back_offset) AS back
    FROM failures) f
    ON o.broker = f.broker AND o.place = f.place AND o.from_offset <= f.back
)
SELECT failure,
  count(DISTINCT (topic_id, partition)) FILTER (WHERE kind = 'leaderless') AS leaderless,
  sum(ms) FILTER (WHERE kind = 'leaderless') AS leaderless_ms,
  max(ms) FILTER (WHERE kind = 'leaderless') AS longest_leaderless_ms,
  count(DISTINCT (topic_id, partition)) FILTER (WHERE kind = 'under_min_isr') AS under_min_isr,
  sum(ms) FILTER (WHERE kind = 'under_min_isr') AS under_min_isr_ms,
  max(ms) FILTER (WHERE kind = 'under_min_isr') AS longest_under_min_isr_ms,
  count(DISTINCT (topic_id, partition)) FILTER (WHERE is_open) AS still_short
FROM owned GROUP BY failure
