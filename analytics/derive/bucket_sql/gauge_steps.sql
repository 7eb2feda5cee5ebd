-- An interval counts at the end of each stretch of time that it covers, and in each that it touches.
WITH held AS (
  SELECT what, NULL AS broker, NULL AS directory, topic_id, partition, valid_from_time AS from_time,
    valid_to_offset IS NULL AS is_open, valid_to_time AS to_time
  FROM partition_history, (VALUES ('partitions'), ('under_replicated'), ('not_preferred')) t(what)
  WHERE what = 'partitions'
    OR what = 'under_replicated' AND len(isr) < len(replicas)
    OR what = 'not_preferred' AND leader NOT IN (-1, coalesce(replicas[1], -1))
  UNION ALL
  SELECT kind, NULL, NULL, topic_id, partition, from_time, to_offset IS NULL, to_time FROM outages
  UNION ALL
  SELECT 'replicas', broker, directory, topic_id, partition, valid_from_time,
    valid_to_offset IS NULL, valid_to_time
  FROM replica_placement
  UNION ALL
  -- Each leadership, where its replica was then.
  SELECT 'leaders', p.broker, p.directory, topic_id, partition,
    later(l.valid_from_time, p.valid_from_time),
    l.valid_to_offset IS NULL AND p.valid_to_offset IS NULL,
    first_end(l.valid_to_offset, l.valid_to_time, p.valid_to_offset, p.valid_to_time)
  FROM leadership l JOIN replica_placement p USING (topic_id, partition)
  WHERE p.broker = l.leader
    AND p.valid_from_offset < or_never(l.valid_to_offset)
    AND l.valid_from_offset < or_never(p.valid_to_offset)
  UNION ALL
  -- A partition may have several replicas offline at once; each counts.
  SELECT what, broker, NULL, topic_id, partition, from_time, is_open, to_time
  FROM joined_intervals WHERE what = 'offline_replicas'
), spans AS (
  -- A clock that was set back makes an interval end before it began.
  SELECT what::ENUM('partitions', 'under_replicated', 'not_preferred', 'leaderless',
      'under_min_isr', 'replicas', 'leaders', 'offline_replicas') AS what,
    broker, directory, topic_id, partition, is_open,
    stretch(epoch_us(from_time)) AS first,
    CASE WHEN NOT is_open THEN stretch(epoch_us(greatest(from_time, to_time))) END AS behind,
    or_never(
      CASE WHEN NOT is_open THEN greatest(first, stretch(epoch_us(to_time) - 1)) END
    ) AS last
  FROM held WHERE from_time IS NOT NULL AND (is_open OR to_time IS NOT NULL)
), visits AS (
  -- Who was there in a stretch already is not counted in it again.
  SELECT what, broker, directory, last,
    CASE WHEN before IS NULL OR before < first THEN first ELSE before + stretch_us() END AS first
  FROM (
    SELECT *, max(last) OVER (
      PARTITION BY what, broker, directory, topic_id, partition ORDER BY first
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before FROM spans
  ) WHERE before IS NULL OR before < last
), counted AS (
  SELECT what, broker, directory, first, behind, count(*) AS at_end, 0 AS ever
  FROM spans GROUP BY what, broker, directory, first, behind
  UNION ALL
  SELECT what, broker, directory, first, nullif(last, or_never(NULL)) + stretch_us(), 0, count(*)
  FROM visits GROUP BY what, broker, directory, first, last
)
SELECT what, CASE WHEN what <> 'offline_replicas' THEN broker END AS broker, directory,
  make_timestamptz(moment) AS from_time, sum(at_end) AS at_end, sum(ever) AS ever
FROM (
  SELECT what, broker, directory, first AS moment, at_end, ever FROM counted
  UNION ALL
  SELECT what, broker, directory, behind, -at_end, -ever FROM counted WHERE behind IS NOT NULL
) GROUP BY ALL HAVING sum(at_end) <> 0 OR sum(ever) <> 0
