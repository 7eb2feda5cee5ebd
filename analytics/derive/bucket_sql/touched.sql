-- The replicas that were placed where something failed, a row for each failure and replica.
-- A snapshot tells of a failure and of the replicas there in one moment.
SELECT f.*, p.topic, p.topic_id, p.partition, p.valid_to_offset, p.valid_to_time,
  coalesce(p.ended_by IN ('replica_removed', 'topic_deleted'), false) AS is_gone
FROM replica_placement p JOIN failures f ON p.broker = f.broker
  AND (f.directory IS NULL OR p.directory = f.directory)
  AND p.valid_from_offset <= f.detected_offset AND f.detected_offset < or_never(p.valid_to_offset)
