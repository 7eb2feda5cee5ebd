-- Step: the records that have an effect: from the begin of the replay on, without dropped ones.
-- Those of the snapshot that the replay begins with are its begin; the others are compared.
SELECT r.*, r.snapshot AND r.replay_offset = l.replay_from AND coalesce(l.start_offset, -1) <> 0
    AS is_base
FROM log_rows r JOIN log_layouts l ON r.cluster = l.cluster AND r.replay_offset >= l.replay_from
LEFT ANTI JOIN dropped_stretches d
  ON r.cluster = d.cluster AND r.`offset` >= d.from_offset AND r.`offset` < d.to_offset
  AND NOT r.snapshot AND NOT r.control
WHERE r.problem IS NULL
