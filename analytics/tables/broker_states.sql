-- Step (kept): a state of a broker's registration, and the record that ended it.
SELECT cluster, broker, seq, broker_epoch, incarnation_id, end_points, features, rack, fenced,
  in_controlled_shutdown, log_dirs, cordoned_log_dirs, valid_from_offset, valid_from_time,
  record_type, batch_base_offset, batch_last_offset, valid_to_offset, valid_to_time, to_record_type
FROM rare_history WHERE kind = 'broker'
