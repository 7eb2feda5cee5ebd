-- Step (kept): a change of an access control entry; a null payload = it is gone. A removal of one
-- that is not there changes nothing (is_unknown).
WITH said AS (
  SELECT *, get_json_object(payload, '$.data.id') AS id,
    row_number() OVER (PARTITION BY cluster, get_json_object(payload, '$.data.id'), replay_position
      ORDER BY `offset` DESC) AS rank
  FROM few_records
  WHERE type IN ('ACCESS_CONTROL_ENTRY_RECORD', 'REMOVE_ACCESS_CONTROL_ENTRY_RECORD')
    AND payload IS NOT NULL
), ids AS (
  SELECT DISTINCT cluster, id FROM said
), steps AS (
  SELECT cluster, id, CASE WHEN type = 'ACCESS_CONTROL_ENTRY_RECORD' THEN payload END AS entry, file,
    replay_position, `offset`, replay_offset, replay_time, type AS record_type, batch_base_offset,
    false AS is_compared
  FROM said WHERE NOT snapshot
  UNION ALL
  SELECT i.cluster, i.id, s.payload, p.file, p.position, CAST(-1 AS BIGINT), p.`offset`, p.time,
    'SNAPSHOT', p.`offset`, NOT p.is_base
  FROM sync_points p JOIN ids i ON p.cluster = i.cluster
  LEFT JOIN said s ON s.snapshot AND s.rank = 1 AND s.cluster = i.cluster AND s.id = i.id
    AND s.replay_position = p.position AND s.type = 'ACCESS_CONTROL_ENTRY_RECORD'
), compared AS (
  SELECT *, lag(entry) OVER (PARTITION BY cluster, id ORDER BY replay_position, `offset`) AS former
  FROM steps
)
SELECT cluster, id, entry, file, replay_position, `offset`, replay_offset AS valid_from_offset,
  replay_time AS valid_from_time, record_type, batch_base_offset, is_compared,
  entry IS NULL AND former IS NULL AS is_unknown
FROM compared
WHERE entry IS DISTINCT FROM former
  OR record_type = 'REMOVE_ACCESS_CONTROL_ENTRY_RECORD' AND former IS NULL
