-- One interval in which a log directory of a broker was online or offline.
--
-- order by: cluster, broker, directory, valid_from_offset
--
-- cluster (string): label of the cluster
-- broker (int): id of the broker
-- directory (string): id of the directory
-- state (string): online or offline
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
-- valid_to_offset (long): offset of the record that ended this state; null = still
-- valid_to_time (timestamp): time of that record; null = still
-- ended_by (string): failed (reported offline), absent (missing when the broker registered),
--   registered (online again), unregistered (the broker was removed), snapshot (known from a
--   snapshot only); null = still
--
-- A directory is known from the first registration that names it until the broker is removed.
WITH states AS (
  SELECT *, sum(CASE WHEN former_end = valid_from_offset THEN 0 ELSE 1 END) OVER (
      PARTITION BY cluster, broker ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      AS life
  FROM (
    SELECT *, lag(valid_to_offset) OVER (PARTITION BY cluster, broker ORDER BY seq) AS former_end
    FROM broker_states
  ) s
), named AS (
  SELECT cluster, broker, life, directory, min(seq) AS first_seq
  FROM (SELECT cluster, broker, life, seq, explode(log_dirs) AS directory FROM states) d
  -- Kafka's reserved ids name no directory.
  WHERE directory NOT LIKE 'AAAAAAAAAAAAAAAAAAAA%'
  GROUP BY cluster, broker, life, directory
), seen AS (
  SELECT s.*, n.directory,
    CASE WHEN array_contains(s.log_dirs, n.directory) THEN 'online' ELSE 'offline' END AS state,
    max(s.seq) OVER (PARTITION BY s.cluster, s.broker, s.life) AS last_seq
  FROM states s JOIN named n
    ON s.cluster = n.cluster AND s.broker = n.broker AND s.life = n.life AND s.seq >= n.first_seq
), changed AS (
  SELECT *, lag(state) OVER in_order AS former FROM seen
  WINDOW in_order AS (PARTITION BY cluster, broker, life, directory ORDER BY seq)
), ends AS (
  SELECT cluster, broker, life, seq AS last_seq, valid_to_offset AS end_offset,
    valid_to_time AS end_time FROM states
), begun AS (
  SELECT *, lead(seq) OVER in_order AS next_seq, lead(valid_from_offset) OVER in_order AS next_offset,
    lead(valid_from_time) OVER in_order AS next_time, lead(record_type) OVER in_order AS next_type
  FROM changed WHERE former IS NULL OR former <> state
  WINDOW in_order AS (PARTITION BY cluster, broker, life, directory ORDER BY seq)
)
SELECT b.cluster, b.broker, b.directory, b.state, b.valid_from_offset, b.valid_from_time,
  b.record_type, b.batch_base_offset,
  CASE WHEN b.next_seq IS NULL THEN e.end_offset ELSE b.next_offset END AS valid_to_offset,
  CASE WHEN b.next_seq IS NULL THEN e.end_time ELSE b.next_time END AS valid_to_time,
  CASE WHEN b.next_seq IS NULL THEN CASE WHEN e.end_offset IS NOT NULL THEN 'unregistered' END
    WHEN b.next_type = 'SNAPSHOT' THEN 'snapshot'
    WHEN b.state = 'offline' THEN 'registered'
    WHEN b.next_type = 'REGISTER_BROKER_RECORD' THEN 'absent' ELSE 'failed' END AS ended_by
FROM begun b JOIN ends e ON b.cluster = e.cluster AND b.broker = e.broker AND b.last_seq = e.last_seq
