-- One interval in which a user could log in by one password.
--
-- order by: cluster, user, mechanism, valid_from_offset
--
-- cluster (string): label of the cluster
-- user (string): name of the user
-- mechanism (string): SCRAM-SHA-256 or SCRAM-SHA-512
-- iterations (int): how often the password was hashed
-- keys (string): always (redacted): salt and keys are in no table
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
-- valid_to_offset (long): offset of the record that ended this state; null = still
-- valid_to_time (timestamp): time of that record; null = still
SELECT cluster, user, CASE mechanism WHEN 1 THEN 'SCRAM-SHA-256' WHEN 2 THEN 'SCRAM-SHA-512'
    ELSE CAST(mechanism AS STRING) END AS mechanism,
  iterations, '(redacted)' AS keys, valid_from_offset, valid_from_time, record_type,
  batch_base_offset, valid_to_offset, valid_to_time
FROM (
  SELECT *, lead(valid_from_offset) OVER in_order AS valid_to_offset,
    lead(valid_from_time) OVER in_order AS valid_to_time
  FROM scram_steps
  WINDOW in_order AS (PARTITION BY cluster, user, mechanism ORDER BY replay_position, `offset`)
) s WHERE credential IS NOT NULL
