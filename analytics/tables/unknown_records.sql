-- One record of a type or version that is not known; what it changes is in no other table.
--
-- order by: cluster, file, offset
--
-- cluster (string): label of the cluster
-- offset (long): offset of the record; in a snapshot its position there
-- timestamp (timestamp): when the record was written; null if outside the years 1 to 9999
-- batch_base_offset (long): offset of the first record of the batch
-- file (string): name of the file in the log directory
-- position (long): byte position of the batch in that file
-- control (boolean): whether it is a control record, whose types are numbered apart
-- type_id (int): number of the type
-- version (int): schema version of the record
-- value (binary): bytes of the record's value, envelope included; null if it has none
SELECT cluster, `offset`, timestamp, batch_base_offset, file, position, control,
  CAST(regexp_extract(type, '[0-9]+', 0) AS INT) AS type_id, version,
  CASE WHEN payload IS NULL THEN value END AS value
FROM log_rows WHERE problem IS NULL AND type LIKE 'UNKNOWN(%'
