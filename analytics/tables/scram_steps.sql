-- Step (kept): a change of what a user logs in by; a null value = by nothing. Values are compared
-- and shown nowhere.
WITH said AS (
  SELECT *, get_json_object(payload, '$.data.name') AS user,
    CAST(get_json_object(payload, '$.data.mechanism') AS INT) AS mechanism,
    CAST(get_json_object(payload, '$.data.iterations') AS INT) AS iterations,
    row_number() OVER (PARTITION BY cluster, get_json_object(payload, '$.data.name'),
      get_json_object(payload, '$.data.mechanism'), replay_position ORDER BY `offset` DESC) AS rank
  FROM few_records
  WHERE type IN ('USER_SCRAM_CREDENTIAL_RECORD', 'REMOVE_USER_SCRAM_CREDENTIAL_RECORD')
    AND payload IS NOT NULL
), keys AS (
  SELECT DISTINCT cluster, user, mechanism FROM said
), steps AS (
  SELECT cluster, user, mechanism,
    CASE WHEN type = 'USER_SCRAM_CREDENTIAL_RECORD' THEN iterations END AS iterations,
    CASE WHEN type = 'USER_SCRAM_CREDENTIAL_RECORD' THEN value END AS credential, file,
    replay_position, `offset`, replay_offset, replay_time, type AS record_type, batch_base_offset,
    false AS is_compared
  FROM said WHERE NOT snapshot
  UNION ALL
  SELECT k.cluster, k.user, k.mechanism, s.iterations, s.value, p.file, p.position,
    CAST(-1 AS BIGINT), p.`offset`, p.time, 'SNAPSHOT', p.`offset`, NOT p.is_base
  FROM sync_points p JOIN keys k ON p.cluster = k.cluster
  LEFT JOIN said s ON s.snapshot AND s.rank = 1 AND s.cluster = k.cluster AND s.user = k.user
    AND s.mechanism = k.mechanism AND s.replay_position = p.position
    AND s.type = 'USER_SCRAM_CREDENTIAL_RECORD'
), compared AS (
  SELECT *, lag(credential) OVER (PARTITION BY cluster, user, mechanism
    ORDER BY replay_position, `offset`) AS former
  FROM steps
)
SELECT cluster, user, mechanism, iterations, credential, file, replay_position, `offset`,
  replay_offset AS valid_from_offset, replay_time AS valid_from_time, record_type,
  batch_base_offset, is_compared
FROM compared WHERE credential IS DISTINCT FROM former
