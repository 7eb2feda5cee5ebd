-- A replica that a reassignment removed has not fallen out, and it is out no longer than it is placed.
WITH events AS (
  SELECT topic, topic_id, partition, "offset", time, unnest("left") AS broker, true AS is_out
  FROM isr_changes WHERE cause IS DISTINCT FROM 'reassignment'
  UNION ALL
  SELECT topic, topic_id, partition, "offset", time, unnest(joined), false FROM isr_changes
), placed AS (
  SELECT topic_id, partition, broker, max(coalesce(valid_to_time, log_end())) AS placed_until
  FROM replica_placement GROUP BY topic_id, partition, broker
), followed AS (
  SELECT events.*, CASE WHEN lead(is_out) OVER in_order IS NOT NULL THEN lead(events.time) OVER in_order
      WHEN p.broker IS NULL THEN log_end() ELSE placed_until END AS until,
    greatest(epoch_us(until) - epoch_us(events.time), 0) // 1000 AS ms
  FROM events LEFT JOIN placed p USING (topic_id, partition, broker)
  WINDOW in_order AS (
    PARTITION BY topic_id, partition, broker ORDER BY "offset", is_out DESC
  )
)
SELECT any_value(topic) AS topic, topic_id, partition, broker,
  count_if(is_out) AS shrinks, count_if(NOT is_out) AS expands,
  min(time) FILTER (WHERE is_out) AS first_time,
  arg_max_null(time, ("offset", NOT is_out)) AS last_time,
  coalesce(sum(ms) FILTER (WHERE is_out AND time IS NOT NULL AND until IS NOT NULL), 0)
    AS out_ms_total,
  coalesce(max(ms) FILTER (WHERE is_out AND time IS NOT NULL AND until IS NOT NULL), 0) AS out_ms_max
FROM followed GROUP BY topic_id, partition, broker HAVING count_if(is_out) > 0
