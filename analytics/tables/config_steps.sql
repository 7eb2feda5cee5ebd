-- Step (kept): a change of a setting, by a record, by the end of its topic, or by a snapshot that
-- says otherwise; null = not set any more.
WITH said AS (
  SELECT cluster, file, `offset`, replay_position, replay_offset, replay_time, snapshot, type,
    batch_base_offset, topic_id, get_json_object(payload, '$.data.resourceType') AS kind,
    coalesce(get_json_object(payload, '$.data.resourceName'), '') AS resource_name,
    get_json_object(payload, '$.data.name') AS name, get_json_object(payload, '$.data.value') AS value
  FROM few_records WHERE type = 'CONFIG_RECORD' AND payload IS NOT NULL
), names AS (
  SELECT DISTINCT cluster, kind, resource_name, name FROM said
), in_snapshots AS (
  SELECT *, row_number() OVER (PARTITION BY cluster, kind, resource_name, name, replay_position
    ORDER BY `offset` DESC) AS rank
  FROM said WHERE snapshot
), topics AS (
  SELECT DISTINCT cluster, topic, topic_id FROM few_records WHERE type = 'TOPIC_RECORD'
), steps AS (
  SELECT cluster, kind, resource_name, name, value, file, replay_position, `offset`, replay_offset,
    replay_time, type AS record_type, batch_base_offset, false AS is_compared
  FROM said WHERE NOT snapshot
  UNION ALL
  SELECT n.cluster, n.kind, n.resource_name, n.name, NULL, r.file, r.replay_position, r.`offset`,
    r.replay_offset, r.replay_time, r.type, r.batch_base_offset, false
  FROM few_records r JOIN topics t ON r.cluster = t.cluster AND r.topic_id = t.topic_id
  JOIN names n ON n.cluster = t.cluster AND n.kind = '2' AND n.resource_name = t.topic
  WHERE r.type = 'REMOVE_TOPIC_RECORD' AND NOT r.snapshot
  UNION ALL
  SELECT n.cluster, n.kind, n.resource_name, n.name, s.value, p.file, p.position,
    CAST(-1 AS BIGINT), p.`offset`, p.time, 'SNAPSHOT', p.`offset`, NOT p.is_base
  FROM sync_points p JOIN names n ON p.cluster = n.cluster
  LEFT JOIN in_snapshots s ON s.rank = 1 AND s.cluster = n.cluster AND s.kind = n.kind
    AND s.resource_name = n.resource_name AND s.name = n.name AND s.replay_position = p.position
), compared AS (
  SELECT *, lag(value) OVER (PARTITION BY cluster, kind, resource_name, name
    ORDER BY replay_position, `offset`) AS former
  FROM steps
)
SELECT cluster, CASE kind WHEN '0' THEN 'unknown' WHEN '2' THEN 'topic' WHEN '4' THEN 'broker'
    WHEN '8' THEN 'broker_logger' WHEN '16' THEN 'client_metrics' WHEN '32' THEN 'group' ELSE kind
    END AS resource_type,
  resource_name, name, value, file, replay_position, `offset`, replay_offset AS valid_from_offset,
  replay_time AS valid_from_time, record_type, batch_base_offset, is_compared
FROM compared WHERE value IS DISTINCT FROM former
