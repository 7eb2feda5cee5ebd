-- One place where the log cannot be read or contradicts itself.
--
-- order by: cluster, file, position, offset
--
-- cluster (string): label of the cluster
-- file (string): name of the file; null if found by the replay across files
-- position (long): byte position in that file, if known
-- offset (long): offset in the log, if known
-- kind (string): torn_tail, crc, corrupt (bytes that are not a batch), gap, order (an offset that
--   was there before), epoch (goes back, or rises without a change of the leader), undecodable,
--   incomplete_snapshot, unreadable, transaction, replay (a change of something unknown),
--   disagreement (log and snapshot tell different states)
-- message (string): what was found, with the values
WITH found AS (
  SELECT cluster, file, position, `offset`, problem AS kind, message FROM log_rows
  WHERE problem IS NOT NULL
  UNION ALL
  SELECT cluster, file, NULL, `offset`, 'transaction', message FROM misplaced_markers
), compared AS (
  SELECT cluster, file, `offset`, problem AS kind, message FROM rare_history WHERE kind = 'problem'
  UNION ALL
  SELECT cluster, file, `offset`, 'replay',
    concat(record_type, ': removal of unknown access control entry ', id)
  FROM acl_steps WHERE is_unknown
  UNION ALL
  SELECT cluster, file, valid_from_offset, 'disagreement',
    concat(resource_type, ' \'', resource_name, '\': ', name, ' differs in the snapshot')
  FROM config_steps WHERE is_compared
  UNION ALL
  SELECT cluster, file, valid_from_offset, 'disagreement', concat('feature ', feature, ' is ',
    coalesce(CAST(former AS STRING), 'None'), ', in the snapshot ', coalesce(CAST(level AS STRING), 'None'))
  FROM feature_steps WHERE is_compared
  UNION ALL
  SELECT cluster, file, valid_from_offset, 'disagreement',
    concat('access control entry ', id, ' differs in the snapshot')
  FROM acl_steps WHERE is_compared
  UNION ALL
  SELECT cluster, file, valid_from_offset, 'disagreement',
    concat('user \'', user, '\': the credential differs in the snapshot')
  FROM scram_steps WHERE is_compared
)
SELECT cluster, file, position, `offset`, kind, message FROM found
UNION ALL
-- A snapshot behind the end of the log tells another moment than the state that was reached: that
-- records are missing is said once.
SELECT c.cluster, c.file, NULL, c.`offset`, c.kind, c.message
FROM compared c JOIN log_layouts l ON c.cluster = l.cluster
WHERE c.kind <> 'disagreement' OR c.`offset` <= l.log_end_offset
