-- Step (kept): by how much one number changes from one stretch of time to the next. An interval counts at
-- the end of each stretch that it covers, and in each that it touches.
WITH places AS (
  -- Rows are put in order by numbers; by texts that takes twice as long.
  SELECT cluster, broker, directory, CAST(row_number() OVER (PARTITION BY cluster
    ORDER BY broker, directory) AS INT) AS place
  FROM (SELECT DISTINCT cluster, broker, directory FROM replica_placement) d
), placed AS (
  SELECT r.*, p.place FROM replica_placement r
  JOIN places p ON r.cluster = p.cluster AND r.broker <=> p.broker AND r.directory <=> p.directory
), held AS (
  SELECT cluster, 1 AS code, 0 AS place, topic_id, partition, min(valid_from_time) AS from_time,
    max(valid_from_time) AS changed_time, bool_or(valid_to_offset IS NULL) AS is_open, max(valid_to_time) AS to_time
  FROM partition_states GROUP BY topic_id, partition, cluster, life
  UNION ALL
  SELECT cluster, code, 0, topic_id, partition, valid_from_time, valid_from_time,
    valid_to_offset IS NULL, valid_to_time
  FROM (SELECT *, explode(array(2, 3)) AS code FROM partition_states
    WHERE is_under_replicated OR is_not_preferred) s
  WHERE CASE code WHEN 2 THEN is_under_replicated ELSE is_not_preferred END
  UNION ALL
  SELECT cluster, CASE kind WHEN 'leaderless' THEN 4 ELSE 5 END, 0, topic_id, partition, from_time,
    from_time, to_offset IS NULL, to_time
  FROM shortages
  UNION ALL
  SELECT cluster, 6, place, topic_id, partition, valid_from_time, valid_from_time,
    valid_to_offset IS NULL, valid_to_time
  FROM placed
  UNION ALL
  -- Each leadership, where its replica was then.
  SELECT l.cluster, 7, p.place, l.topic_id, l.partition,
    CASE WHEN l.valid_from_time IS NOT NULL AND p.valid_from_time IS NOT NULL
      THEN greatest(l.valid_from_time, p.valid_from_time) END, l.valid_from_time,
    l.valid_to_offset IS NULL AND p.valid_to_offset IS NULL,
    CASE WHEN l.valid_to_offset IS NULL THEN p.valid_to_time
      WHEN p.valid_to_offset IS NULL THEN l.valid_to_time
      WHEN l.valid_to_time IS NOT NULL AND p.valid_to_time IS NOT NULL
        THEN least(l.valid_to_time, p.valid_to_time) END
  FROM leadership l JOIN placed p ON l.cluster = p.cluster AND l.topic_id = p.topic_id
    AND l.partition = p.partition AND l.leader = p.broker
    AND p.valid_from_offset < coalesce(l.valid_to_offset, 9223372036854775807)
    AND l.valid_from_offset < coalesce(p.valid_to_offset, 9223372036854775807)
  UNION ALL
  -- A partition may have several replicas offline at once, on several brokers; each counts.
  SELECT cluster, 8, broker, topic_id, partition, from_time, from_time, is_open, to_time
  FROM joined_intervals WHERE what = 'offline_replicas'
), timed AS (
  -- A clock that was set back makes an interval end before it began. Of a partition that goes in the
  -- moment of its last change, that moment counts.
  SELECT h.*, e.stretch_ms * 1000 AS us, unix_micros(h.from_time) AS begin,
    CASE WHEN NOT h.is_open THEN greatest(unix_micros(h.from_time), unix_micros(h.to_time)) END AS until,
    greatest(unix_micros(h.from_time), unix_micros(h.changed_time), unix_micros(h.to_time) - 1) AS last_us
  FROM held h JOIN log_ends e ON h.cluster = e.cluster
  WHERE h.from_time IS NOT NULL AND (h.is_open OR h.to_time IS NOT NULL)
), spans AS (
  SELECT cluster, code, place, topic_id, partition, us, begin - pmod(begin, us) AS first,
    until - pmod(until, us) AS behind, CASE WHEN is_open THEN 9223372036854775807
      ELSE last_us - pmod(last_us, us) END AS last
  FROM timed
), followed AS (
  SELECT *, max(last) OVER (PARTITION BY topic_id, partition, cluster, code, place
      ORDER BY first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM spans
), steps AS (
  -- Read once: Spark makes what is read again anew, with all that it is made of.
  SELECT cluster, code, place, CASE step WHEN 1 THEN first WHEN 2 THEN behind
      WHEN 3 THEN CASE WHEN before IS NULL OR before < first THEN first ELSE before + us END
      ELSE last + us END AS moment,
    CASE step WHEN 1 THEN 1 WHEN 2 THEN -1 ELSE 0 END AS at_end,
    CASE step WHEN 3 THEN 1 WHEN 4 THEN -1 ELSE 0 END AS ever
  FROM (SELECT *, explode(array(1, 2, 3, 4)) AS step FROM followed) f
  -- Who was there in a stretch already is not counted in it again.
  WHERE CASE step WHEN 1 THEN true WHEN 2 THEN behind IS NOT NULL
    ELSE (before IS NULL OR before < last) AND (step = 3 OR last < 9223372036854775807) END
), summed AS (
  SELECT cluster, code, CASE WHEN code <> 8 THEN place END AS place, moment, sum(at_end) AS at_end,
    sum(ever) AS ever
  FROM steps GROUP BY cluster, code, CASE WHEN code <> 8 THEN place END, moment
)
SELECT s.cluster, element_at(array('partitions', 'under_replicated', 'not_preferred', 'leaderless',
    'under_min_isr', 'replicas', 'leaders', 'offline_replicas'), s.code) AS what,
  p.broker, p.directory, s.moment, s.at_end, s.ever
FROM summed s LEFT JOIN places p ON s.cluster = p.cluster AND s.place = p.place
