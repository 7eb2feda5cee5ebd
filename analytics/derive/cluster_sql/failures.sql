-- A failure of a broker begins when it stops being unfenced, and lasts through whatever follows,
-- fencing, controlled shutdown and new registrations, until it is unfenced again or removed. A
-- broker that registers for the first time has not failed; one that a snapshot knows as fenced has.
WITH sessions AS (
  SELECT *,
    lag(state) OVER in_order AS former_state, lag(ended_by) OVER in_order AS former_ended_by,
    former_state IS NULL OR coalesce(former_ended_by = 'unregistered', false) AS is_first
  FROM broker_sessions WINDOW in_order AS (PARTITION BY broker ORDER BY valid_from_offset)
), begun AS (
  SELECT *, CASE WHEN is_first THEN 'snapshot' ELSE former_ended_by END AS began_by
  FROM sessions WHERE state <> 'unfenced'
    AND CASE WHEN is_first THEN record_type = 'SNAPSHOT' ELSE former_state = 'unfenced' END
), ends AS (
  SELECT broker, valid_from_offset AS back_offset, valid_from_time AS back_time,
    'unfenced' AS back_by
  FROM sessions WHERE state = 'unfenced'
  UNION ALL
  SELECT broker, valid_to_offset, valid_to_time, 'unregistered'
  FROM sessions WHERE ended_by = 'unregistered'
), known AS (
  SELECT broker, directory, NULL AS began_by, valid_from_offset AS detected_offset,
    valid_from_time AS detected_time, batch_base_offset AS batch, valid_to_offset AS back_offset,
    valid_to_time AS back_time, ended_by AS back_by
  FROM log_dirs WHERE state = 'offline'
  UNION ALL
  SELECT b.broker, NULL, began_by, valid_from_offset, valid_from_time, batch_base_offset,
    back_offset, back_time, back_by
  FROM begun b ASOF LEFT JOIN ends e ON b.broker = e.broker AND b.valid_from_offset < e.back_offset
  UNION ALL
  -- A broker that was removed while it served; it is over at once.
  SELECT broker, NULL, 'unregistered', valid_to_offset, valid_to_time, NULL, valid_to_offset,
    valid_to_time, 'unregistered'
  FROM sessions WHERE state = 'unfenced' AND ended_by = 'unregistered'
), partitions_known AS (
  SELECT (SELECT coalesce(sum(records), 0) FROM record_counts WHERE type = 'PARTITION_RECORD')
    + (SELECT count(*) FROM snapshot_records WHERE type = 'PARTITION_RECORD') AS touched_at_most
)
SELECT row_number() OVER (ORDER BY directory IS NULL, detected_offset, broker, directory) AS failure,
  * REPLACE (least(batch, detected_offset) AS batch)
FROM known, partitions_known
