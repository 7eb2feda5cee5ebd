-- One interval in which a feature had one finalized level.
--
-- order by: cluster, feature, valid_from_offset
--
-- cluster (string): label of the cluster
-- feature (string): name of the feature, such as metadata.version
-- level (int): finalized level
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
-- valid_to_offset (long): offset of the record that ended this state; null = still
-- valid_to_time (timestamp): time of that record; null = still
SELECT cluster, feature, level, valid_from_offset, valid_from_time, record_type, batch_base_offset,
  valid_to_offset, valid_to_time
FROM (
  SELECT *, lead(valid_from_offset) OVER in_order AS valid_to_offset,
    lead(valid_from_time) OVER in_order AS valid_to_time
  FROM feature_steps
  WINDOW in_order AS (PARTITION BY cluster, feature ORDER BY replay_position, `offset`)
) s WHERE level IS NOT NULL
