-- Step (kept): a replica that was placed where something failed. A snapshot tells of a failure and
-- of the replicas there in one moment.
SELECT f.cluster, f.failure, f.broker, f.directory, f.detected_offset, f.detected_time, f.batch,
  f.back_offset, f.back_time, p.topic, p.topic_id, p.partition, p.valid_to_offset, p.valid_to_time,
  coalesce(p.ended_by IN ('replica_removed', 'topic_deleted'), false) AS is_gone
FROM failures f JOIN replica_placement p ON f.cluster = p.cluster AND f.broker = p.broker
  AND (f.directory IS NULL OR p.directory = f.directory)
  AND p.valid_from_offset <= f.detected_offset
  AND f.detected_offset < coalesce(p.valid_to_offset, 9223372036854775807)
