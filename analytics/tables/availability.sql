-- One topic on one day (UTC).
--
-- order by: cluster, topic, topic_id, day
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- day (date): the day
-- partitions (long): partitions that existed on that day
-- partition_ms (long): milliseconds of that day that they existed, summed
-- leaderless_ms (long): milliseconds without a leader, summed over partitions
-- under_min_isr_ms (long): milliseconds under min.insync.replicas, summed
-- unwritable_ms (long): milliseconds in which either was so, and acks=all could not be had, summed
-- availability (double): for reading: 1 - leaderless_ms / partition_ms
-- write_availability (double): for writing: 1 - unwritable_ms / partition_ms
--
-- A partition without leader can be neither read nor written. Under min ISR it can be read, but not
-- written by a producer that wants all acknowledgements (acks=all). The life of a partition is the
-- time in which it has replicas anywhere.
WITH lives AS (
  SELECT p.cluster, max(p.topic) AS topic, p.topic_id, p.partition, min(p.valid_from_time) AS from_time,
    max(CASE WHEN p.valid_to_offset IS NULL THEN e.end_time ELSE p.valid_to_time END) AS to_time
  FROM replica_placement p JOIN log_ends e ON p.cluster = e.cluster
  GROUP BY p.topic_id, p.partition, p.cluster
), spans AS (
  SELECT cluster, topic, topic_id, CAST(NULL AS STRING) AS kind, from_time, to_time FROM lives
  UNION ALL
  SELECT o.cluster, NULL, o.topic_id, o.kind, o.from_time,
    CASE WHEN o.to_offset IS NULL THEN e.end_time ELSE o.to_time END
  FROM outages o JOIN log_ends e ON o.cluster = e.cluster
  UNION ALL
  SELECT i.cluster, NULL, i.topic_id, i.what, i.from_time,
    CASE WHEN i.is_open THEN e.end_time ELSE i.to_time END
  FROM joined_intervals i JOIN log_ends e ON i.cluster = e.cluster WHERE i.what = 'unwritable'
), counted AS (
  -- Partitions of a topic mostly begin and end together.
  SELECT cluster, topic, topic_id, kind, from_time, greatest(from_time, to_time) AS to_time,
    count(*) AS partitions
  FROM spans WHERE from_time IS NOT NULL AND to_time IS NOT NULL
  GROUP BY cluster, topic, topic_id, kind, from_time, greatest(from_time, to_time)
), cut AS (
  SELECT cluster, topic, topic_id, kind, partitions, from_time, to_time, CAST(moment AS DATE) AS day
  FROM (SELECT *, explode(sequence(CAST(from_time AS DATE), CAST(to_time AS DATE), INTERVAL 1 DAY))
    AS moment FROM counted) d
), timed AS (
  SELECT *, unix_micros(CAST(day AS TIMESTAMP)) AS day_us FROM cut
), days AS (
  SELECT *, least(day_us + 86400000000, unix_micros(to_time)) DIV 1000
    - greatest(day_us, unix_micros(from_time)) DIV 1000 AS ms
  FROM timed
), summed AS (
  -- A span that ends at midnight has no part in the new day.
  SELECT cluster, max(topic) AS topic, topic_id, day,
    CAST(sum(CASE WHEN kind IS NULL THEN partitions END) AS BIGINT) AS partitions,
    CAST(sum(CASE WHEN kind IS NULL THEN partitions * ms END) AS BIGINT) AS partition_ms,
    CAST(coalesce(sum(CASE WHEN kind = 'leaderless' THEN partitions * ms END), 0) AS BIGINT)
      AS leaderless_ms,
    CAST(coalesce(sum(CASE WHEN kind = 'under_min_isr' THEN partitions * ms END), 0) AS BIGINT)
      AS under_min_isr_ms,
    CAST(coalesce(sum(CASE WHEN kind = 'unwritable' THEN partitions * ms END), 0) AS BIGINT)
      AS unwritable_ms
  FROM days WHERE ms > 0 OR CAST(from_time AS DATE) = day
  GROUP BY cluster, topic_id, day
)
SELECT cluster, topic, topic_id, day, partitions, partition_ms, leaderless_ms, under_min_isr_ms,
  unwritable_ms,
  CASE WHEN partition_ms > 0 THEN 1 - CAST(leaderless_ms AS DOUBLE) / partition_ms END AS availability,
  CASE WHEN partition_ms > 0 THEN 1 - CAST(unwritable_ms AS DOUBLE) / partition_ms END
    AS write_availability
FROM summed WHERE partitions IS NOT NULL
