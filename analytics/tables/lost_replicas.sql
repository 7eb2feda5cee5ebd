-- Step (kept): what took replicas away in a step of a partition: its former leader, members of its
-- ISR, or those that an outage is counted by; of several replicas the worst. The registration at the
-- end of the batch decides; where it says nothing yet, what it says within 30 s.
WITH gone AS (
  SELECT cluster, topic_id, partition, life, seq, batch_last_offset, valid_from_time, 'leader' AS of,
    former_leader AS lost, former_replicas AS replicas, former_directories AS directories
  FROM partition_states WHERE former_leader <> leader AND former_leader <> -1
  UNION ALL
  SELECT cluster, topic_id, partition, life, seq, batch_last_offset, valid_from_time, 'isr',
    explode(isr_left), former_replicas, former_directories
  FROM partition_states WHERE is_isr_changed
  UNION ALL
  -- Of a state without a predecessor every replica that is not in sync counts, and each that is if
  -- there is no leader: a partition without one keeps the last member of its ISR there. An outage
  -- begins with fewer in sync, or without a leader.
  SELECT s.cluster, s.topic_id, s.partition, s.life, s.seq, s.batch_last_offset, s.valid_from_time,
    'outage', explode(filter(
    CASE WHEN is_first THEN replicas WHEN leader = -1 AND former_leader <> -1
        AND NOT array_contains(former_isr, former_leader) THEN concat(former_isr, array(former_leader))
      ELSE former_isr END,
    each -> NOT array_contains(isr, each) AND array_contains(replicas, each)
      OR leader = -1 AND (is_first OR former_leader <> -1 AND each = former_leader))), replicas, directories
  FROM partition_states s LEFT SEMI JOIN shortages o ON s.cluster = o.cluster
    AND s.topic_id = o.topic_id AND s.partition = o.partition AND s.life = o.life AND s.seq = o.seq
), placed AS (
  SELECT cluster, topic_id, partition, life, seq, of, lost, batch_last_offset, valid_from_time,
    CASE WHEN array_contains(replicas, lost)
      THEN element_at(directories, CAST(array_position(replicas, lost) AS INT)) END AS directory
  FROM gone
), judged AS (
  SELECT p.cluster, p.topic_id, p.partition, p.life, p.seq, p.of, p.lost, p.directory,
    p.valid_from_time,
    CASE WHEN o.broker IS NULL THEN 'unregistered'
      WHEN l.broker IS NULL AND o.why IS NULL AND p.directory = 'AAAAAAAAAAAAAAAAAAAAAg'
        THEN 'directory'
      WHEN l.broker IS NULL THEN o.why ELSE l.why END AS why,
    CASE WHEN l.broker IS NULL THEN o.next_why ELSE l.next_why END AS next_why,
    CASE WHEN l.broker IS NULL THEN o.next_time ELSE l.next_time END AS next_time
  FROM placed p
  LEFT JOIN registration_losses o ON o.cluster = p.cluster AND o.broker = p.lost
    AND o.directory = '?' AND p.batch_last_offset >= o.valid_from_offset
    AND p.batch_last_offset < o.valid_to_offset
  LEFT JOIN registration_losses l ON l.cluster = p.cluster AND l.broker = p.lost
    AND l.directory = CASE WHEN p.directory IS NULL OR p.directory IN
      ('AAAAAAAAAAAAAAAAAAAAAA', 'AAAAAAAAAAAAAAAAAAAAAQ') THEN '' ELSE p.directory END
    AND p.batch_last_offset >= l.valid_from_offset AND p.batch_last_offset < l.valid_to_offset
), explained AS (
  SELECT *, CASE WHEN why IS NOT NULL THEN why
      WHEN unix_micros(next_time) - unix_micros(valid_from_time) <= 30000000 THEN next_why
      ELSE 'unknown' END AS late_why
  FROM judged
), ranked AS (
  SELECT *, CASE late_why WHEN 'directory' THEN 0 WHEN 'fenced' THEN 1 WHEN 'unregistered' THEN 1
    WHEN 'controlled_shutdown' THEN CASE WHEN of = 'outage' THEN 1 ELSE 2 END ELSE 3 END AS rank
  FROM explained
), worst AS (
  SELECT cluster, topic_id, partition, life, seq, of, min(named_struct('rank', rank, 'lost', lost,
    'late_why', late_why, 'why', coalesce(why, 'unknown'), 'directory', directory)) AS one
  FROM ranked GROUP BY topic_id, partition, cluster, life, seq, of
)
SELECT cluster, topic_id, partition, life, seq, of, one.lost AS broker, one.late_why AS why,
  one.why AS why_at_once, one.directory
FROM worst
