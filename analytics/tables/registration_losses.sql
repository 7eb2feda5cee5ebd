-- Step (kept): for each registration of a broker and each directory that it ever named, whether a
-- replica there is lost, and what takes it away next. The directory '' stands for those that are
-- not known yet, '?' for any other one.
WITH states AS (
  SELECT cluster, broker, seq, log_dirs, valid_from_offset, valid_from_time, valid_to_offset,
    valid_to_time, CASE WHEN in_controlled_shutdown THEN 'controlled_shutdown'
      WHEN fenced THEN 'fenced' END AS lost,
    lag(valid_to_offset) OVER (PARTITION BY cluster, broker ORDER BY seq) AS former_end
  FROM broker_states
), chained AS (
  -- Between two registrations the broker may have been removed.
  SELECT *, sum(CASE WHEN former_end < valid_from_offset THEN 1 ELSE 0 END)
    OVER (PARTITION BY cluster, broker ORDER BY seq
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS chain
  FROM states
), directories AS (
  SELECT DISTINCT cluster, broker, directory
  FROM (SELECT cluster, broker, explode(log_dirs) AS directory FROM states) d
  UNION
  SELECT cluster, broker, '' FROM states
  UNION
  SELECT cluster, broker, '?' FROM states
), placed AS (
  SELECT s.*, d.directory, CASE WHEN s.lost IS NOT NULL THEN s.lost
      WHEN d.directory <> '' AND size(s.log_dirs) > 0
        AND NOT array_contains(s.log_dirs, d.directory) THEN 'directory' END AS why
  FROM chained s JOIN directories d ON s.cluster = d.cluster AND s.broker = d.broker
), followed AS (
  SELECT *, first_value(CASE WHEN why IS NOT NULL
      THEN named_struct('why', why, 'time', valid_from_time) END) IGNORE NULLS
    OVER (PARTITION BY cluster, broker, directory, chain ORDER BY seq
      ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next_loss,
    last_value(named_struct('end', valid_to_offset, 'time', valid_to_time))
      OVER (PARTITION BY cluster, broker, directory, chain ORDER BY seq
      ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS last_state
  FROM placed
)
SELECT cluster, broker, directory, valid_from_offset,
  coalesce(valid_to_offset, 9223372036854775807) AS valid_to_offset, why,
  CASE WHEN next_loss IS NOT NULL THEN next_loss.why
    WHEN last_state.end IS NOT NULL THEN 'unregistered' END AS next_why,
  CASE WHEN next_loss IS NOT NULL THEN next_loss.time
    WHEN last_state.end IS NOT NULL THEN last_state.time END AS next_time
FROM followed
