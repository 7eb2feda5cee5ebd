-- Step (kept): the records that have an effect, without the many about partitions.
SELECT * FROM replayed_records
WHERE type NOT IN ('PARTITION_RECORD', 'PARTITION_CHANGE_RECORD', 'NO_OP_RECORD')
