-- Step (kept): a change of a feature's finalized level; null = off. The level of kraft.version is
-- taken over from snapshots and not compared: the one that a controller is formatted with says it
-- before the log does.
WITH levels AS (
  SELECT cluster, type, file, `offset`, replay_position, replay_offset, replay_time, snapshot,
    batch_base_offset, CAST(CASE WHEN type = 'KRAFT_VERSION' THEN get_json_object(payload, '$.kRaftVersion')
      ELSE get_json_object(payload, '$.data.featureLevel') END AS INT) AS told,
    CASE WHEN type = 'KRAFT_VERSION' THEN 'kraft.version'
      ELSE get_json_object(payload, '$.data.name') END AS named
  FROM few_records
  WHERE type IN ('FEATURE_LEVEL_RECORD', 'KRAFT_VERSION') AND payload IS NOT NULL
), said AS (
  SELECT *, CASE WHEN told = 0 AND type <> 'KRAFT_VERSION' AND named <> 'metadata.version' THEN NULL
      ELSE told END AS level,
    row_number() OVER (PARTITION BY cluster, named, replay_position ORDER BY `offset` DESC) AS rank
  FROM levels
), features AS (
  SELECT DISTINCT cluster, named AS feature FROM said
), steps AS (
  SELECT cluster, named AS feature, level, file, replay_position, `offset`, replay_offset,
    replay_time, type AS record_type, batch_base_offset, false AS is_compared
  FROM said WHERE NOT snapshot
  UNION ALL
  SELECT f.cluster, f.feature, s.level, p.file, p.position, CAST(-1 AS BIGINT), p.`offset`, p.time,
    'SNAPSHOT', p.`offset`, NOT p.is_base AND f.feature <> 'kraft.version'
  FROM sync_points p JOIN features f ON p.cluster = f.cluster
  LEFT JOIN said s ON s.snapshot AND s.rank = 1 AND s.cluster = f.cluster AND s.named = f.feature
    AND s.replay_position = p.position
  WHERE f.feature <> 'kraft.version' OR s.level IS NOT NULL
), compared AS (
  SELECT *, lag(level) OVER (PARTITION BY cluster, feature ORDER BY replay_position, `offset`) AS former
  FROM steps
)
SELECT cluster, feature, level, former, file, replay_position, `offset`,
  replay_offset AS valid_from_offset, replay_time AS valid_from_time, record_type,
  batch_base_offset, is_compared
FROM compared WHERE level IS DISTINCT FROM former
