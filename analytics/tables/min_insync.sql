-- Step (kept): min.insync.replicas in force for a topic from one moment to the next. The topic's
-- own value counts before the one of all brokers, and both before what is assumed.
WITH settings AS (
  SELECT cluster, coalesce(topic, '') AS topic, replay_position, `offset`, replay_offset,
    replay_time, snapshot, get_json_object(payload, '$.data.name') AS name,
    get_json_object(payload, '$.data.resourceType') AS kind,
    get_json_object(payload, '$.data.resourceName') AS resource,
    coalesce(get_json_object(payload, '$.data.value'), '') AS text
  FROM few_records WHERE type = 'CONFIG_RECORD'
), own AS (
  SELECT * FROM settings
  WHERE name = 'min.insync.replicas' AND (topic <> '' OR kind = '4' AND resource = '')
), met AS (
  SELECT DISTINCT s.cluster, o.topic, s.position, s.`offset`, s.time
  FROM sync_points s JOIN (SELECT cluster, topic FROM own UNION SELECT cluster, '' FROM log_layouts) o
    ON s.cluster = o.cluster
), said AS (
  SELECT cluster, topic, replay_position, `offset`, replay_offset, replay_time, text
  FROM own WHERE NOT snapshot
  UNION ALL
  -- What a snapshot does not name is not set.
  SELECT m.cluster, m.topic, m.position, o.`offset`, m.`offset`, m.time, coalesce(o.text, '')
  FROM met m LEFT JOIN own o ON o.snapshot AND o.cluster = m.cluster AND o.topic = m.topic
    AND o.replay_position = m.position
), points AS (
  SELECT cluster, topic_id, begin, valid_to_offset, valid_to_time, begin AS position,
    CAST(-1 AS BIGINT) AS `offset`, valid_from_offset, valid_from_time, '' AS of_topic,
    CAST(NULL AS STRING) AS of_all
  FROM topic_lives
  UNION ALL
  SELECT t.cluster, t.topic_id, t.begin, t.valid_to_offset, t.valid_to_time, s.replay_position,
    s.`offset`, s.replay_offset, s.replay_time, CASE WHEN s.topic <> '' THEN s.text END,
    CASE WHEN s.topic = '' THEN s.text END
  FROM topic_lives t JOIN said s ON t.cluster = s.cluster AND s.replay_position < t.end
    AND (s.topic = '' OR s.topic = t.topic AND s.replay_position > t.begin)
), known AS (
  SELECT *, trim(last_value(of_topic) IGNORE NULLS OVER so_far) AS topics_text,
    trim(last_value(of_all) IGNORE NULLS OVER so_far) AS all_text,
    lead(position) OVER (PARTITION BY cluster, topic_id ORDER BY position, `offset` NULLS FIRST)
      AS next_position
  FROM points
  WINDOW so_far AS (PARTITION BY cluster, topic_id ORDER BY position, `offset` NULLS FIRST
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), in_force AS (
  SELECT k.cluster, k.topic_id, k.position, k.valid_from_offset, k.valid_from_time,
    k.valid_to_offset, k.valid_to_time,
    CASE WHEN topics_text RLIKE '^[0-9]+$' THEN CAST(topics_text AS INT)
      WHEN all_text RLIKE '^[0-9]+$' THEN CAST(all_text AS INT) ELSE l.min_insync_replicas END
      AS value,
    CASE WHEN topics_text RLIKE '^[0-9]+$' THEN 'topic'
      WHEN all_text RLIKE '^[0-9]+$' THEN 'cluster' ELSE 'assumed' END AS origin
  FROM known k JOIN log_layouts l ON k.cluster = l.cluster
  WHERE k.position >= k.begin AND k.next_position IS DISTINCT FROM k.position
), changed AS (
  SELECT *, lag(value) OVER in_order AS former, lag(origin) OVER in_order AS former_origin
  FROM in_force WINDOW in_order AS (PARTITION BY cluster, topic_id ORDER BY position)
), plain AS (
  SELECT c.cluster, c.topic_id, c.position AS seq, c.value AS min_insync_replicas,
    c.origin AS min_insync_replicas_from, c.valid_from_offset, c.valid_from_time,
    CASE WHEN lead(c.position) OVER in_order IS NULL THEN c.valid_to_offset
      ELSE lead(c.valid_from_offset) OVER in_order END AS valid_to_offset
  FROM changed c
  LEFT ANTI JOIN rare_topics r ON c.cluster = r.cluster AND c.topic_id = r.topic_id
  WHERE c.former IS DISTINCT FROM c.value OR c.former_origin IS DISTINCT FROM c.origin
  WINDOW in_order AS (PARTITION BY c.cluster, c.topic_id ORDER BY c.position)
), every AS (
  SELECT * FROM plain
  UNION ALL
  SELECT cluster, topic_id, seq, min_insync_replicas, min_insync_replicas_from, valid_from_offset,
    valid_from_time, valid_to_offset
  FROM rare_history WHERE kind = 'min_isr'
)
SELECT *,
  lag(seq) OVER in_order IS NULL AS is_first, row_number() OVER in_order AS number,
  lead(valid_from_offset) OVER in_order AS next_offset, lead(valid_from_time) OVER in_order AS next_time
FROM every WINDOW in_order AS (PARTITION BY cluster, topic_id ORDER BY seq)
