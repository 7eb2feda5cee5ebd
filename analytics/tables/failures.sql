-- Step (kept): one time that a log directory was offline or a broker did not serve. A failure of a
-- broker begins when it stops being unfenced, and lasts through whatever follows, fencing,
-- controlled shutdown and new registrations, until it is unfenced again or removed. A broker that
-- registers for the first time has not failed; one that a snapshot knows as fenced has.
WITH sessions AS (
  SELECT *, lag(state) OVER in_order AS former_state, lag(ended_by) OVER in_order AS former_ended_by,
    last_value(CASE WHEN state = 'unfenced' THEN named_struct('offset', valid_from_offset,
      'time', valid_from_time, 'by', 'unfenced') END) IGNORE NULLS OVER (PARTITION BY cluster, broker
      ORDER BY valid_from_offset DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS served,
    last_value(CASE WHEN ended_by = 'unregistered' THEN named_struct('offset', valid_to_offset,
      'time', valid_to_time, 'by', 'unregistered') END) IGNORE NULLS OVER (PARTITION BY cluster, broker
      ORDER BY valid_from_offset DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS removed
  FROM broker_sessions
  WINDOW in_order AS (PARTITION BY cluster, broker ORDER BY valid_from_offset)
), firsts AS (
  SELECT *, former_state IS NULL OR coalesce(former_ended_by = 'unregistered', false) AS is_first,
    CASE WHEN removed IS NULL OR served.`offset` < removed.`offset` THEN served ELSE removed END AS back
  FROM sessions
), known AS (
  SELECT cluster, broker, directory, CAST(NULL AS STRING) AS began_by,
    valid_from_offset AS detected_offset, valid_from_time AS detected_time,
    batch_base_offset AS batch, valid_to_offset AS back_offset, valid_to_time AS back_time,
    ended_by AS back_by
  FROM log_dirs WHERE state = 'offline'
  UNION ALL
  SELECT cluster, broker, NULL, CASE WHEN is_first THEN 'snapshot' ELSE former_ended_by END,
    valid_from_offset, valid_from_time, batch_base_offset, back.`offset`, back.time, back.by
  FROM firsts WHERE state <> 'unfenced'
    AND CASE WHEN is_first THEN record_type = 'SNAPSHOT' ELSE former_state = 'unfenced' END
  UNION ALL
  -- A broker that was removed while it served; it is over at once.
  SELECT cluster, broker, NULL, 'unregistered', valid_to_offset, valid_to_time, NULL, valid_to_offset,
    valid_to_time, 'unregistered'
  FROM sessions WHERE state = 'unfenced' AND ended_by = 'unregistered'
)
SELECT cluster, row_number() OVER (PARTITION BY cluster ORDER BY directory IS NULL, detected_offset,
    broker, directory) AS failure, broker, directory, began_by, detected_offset, detected_time,
  least(batch, detected_offset) AS batch, back_offset, back_time, back_by
FROM known
