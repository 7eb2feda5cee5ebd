WITH placed AS (
  SELECT *, ended_by = 'moved' AND lead(valid_from_offset) OVER in_order = valid_to_offset AS goes_on,
    lead(valid_from_offset) OVER in_order AS next_offset,
    lead(valid_from_time) OVER in_order AS next_time,
    lead(directory) OVER in_order AS next_directory
  FROM replica_placement
  WINDOW in_order AS (PARTITION BY topic_id, partition, broker ORDER BY valid_from_offset)
)
SELECT topic, topic_id, partition, broker,
  valid_from_offset AS created_offset, valid_from_time AS created_time,
  CASE WHEN goes_on THEN next_offset END AS assigned_offset,
  CASE WHEN goes_on THEN next_time END AS assigned_time,
  CASE WHEN goes_on THEN next_directory END AS directory,
  epoch_ms(assigned_time) - epoch_ms(valid_from_time) AS lag_ms
FROM placed WHERE directory = unassigned()
