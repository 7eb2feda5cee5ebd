-- Step (kept): by how much one number changes from one stretch of time to the next. An interval counts at
-- the end of each stretch that it covers, and in each that it touches.
WITH held AS (
  SELECT cluster, 'partitions' AS what, CAST(NULL AS INT) AS broker, CAST(NULL AS STRING) AS directory,
    topic_id, partition, min(valid_from_time) AS from_time, max(valid_from_time) AS changed_time,
    bool_or(valid_to_offset IS NULL) AS is_open, max(valid_to_time) AS to_time
  FROM partition_states GROUP BY cluster, topic_id, partition, life
  UNION ALL
  SELECT cluster, what, NULL, NULL, topic_id, partition, valid_from_time, valid_from_time,
    valid_to_offset IS NULL, valid_to_time
  FROM (SELECT *, explode(array('under_replicated', 'not_preferred')) AS what FROM partition_states
    WHERE is_under_replicated OR is_not_preferred) s
  WHERE CASE what WHEN 'under_replicated' THEN is_under_replicated ELSE is_not_preferred END
  UNION ALL
  SELECT cluster, kind, NULL, NULL, topic_id, partition, from_time, from_time, to_offset IS NULL, to_time
  FROM shortages
  UNION ALL
  SELECT cluster, 'replicas', broker, directory, topic_id, partition, valid_from_time, valid_from_time,
    valid_to_offset IS NULL, valid_to_time
  FROM replica_placement
  UNION ALL
  -- Each leadership, where its replica was then.
  SELECT l.cluster, 'leaders', p.broker, p.directory, l.topic_id, l.partition,
    CASE WHEN l.valid_from_time IS NOT NULL AND p.valid_from_time IS NOT NULL
      THEN greatest(l.valid_from_time, p.valid_from_time) END, l.valid_from_time,
    l.valid_to_offset IS NULL AND p.valid_to_offset IS NULL,
    CASE WHEN l.valid_to_offset IS NULL THEN p.valid_to_time
      WHEN p.valid_to_offset IS NULL THEN l.valid_to_time
      WHEN l.valid_to_time IS NOT NULL AND p.valid_to_time IS NOT NULL
        THEN least(l.valid_to_time, p.valid_to_time) END
  FROM leadership l JOIN replica_placement p ON l.cluster = p.cluster AND l.topic_id = p.topic_id
    AND l.partition = p.partition AND l.leader = p.broker
    AND p.valid_from_offset < coalesce(l.valid_to_offset, 9223372036854775807)
    AND l.valid_from_offset < coalesce(p.valid_to_offset, 9223372036854775807)
  UNION ALL
  -- A partition may have several replicas offline at once; each counts.
  SELECT cluster, what, broker, NULL, topic_id, partition, from_time, from_time, is_open, to_time
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
  SELECT cluster, what, broker, directory, topic_id, partition, us, begin - pmod(begin, us) AS first,
    until - pmod(until, us) AS behind, CASE WHEN is_open THEN 9223372036854775807
      ELSE last_us - pmod(last_us, us) END AS last
  FROM timed
), followed AS (
  SELECT *, max(last) OVER (PARTITION BY cluster, what, broker, directory, topic_id, partition
      ORDER BY first, last ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM spans
), turns AS (
  SELECT *, before IS NULL OR before < last AS is_longer, explode(array(1, 2, 3, 4)) AS turn
  FROM followed
), steps AS (
  SELECT cluster, what, broker, directory, turn, CASE turn WHEN 1 THEN first WHEN 2 THEN behind
      -- Who was there in a stretch already is not counted in it again.
      WHEN 3 THEN CASE WHEN is_longer THEN CASE WHEN before >= first THEN before + us ELSE first END END
      ELSE CASE WHEN is_longer AND last < 9223372036854775807 THEN last + us END END AS moment
  FROM turns
)
SELECT cluster, what, CASE WHEN what <> 'offline_replicas' THEN broker END AS broker, directory, moment,
  sum(CASE turn WHEN 1 THEN 1 WHEN 2 THEN -1 ELSE 0 END) AS at_end,
  sum(CASE turn WHEN 3 THEN 1 WHEN 4 THEN -1 ELSE 0 END) AS ever
FROM steps WHERE moment IS NOT NULL
GROUP BY cluster, what, CASE WHEN what <> 'offline_replicas' THEN broker END, directory, moment
