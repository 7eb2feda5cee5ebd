-- Records of types and versions that are not known, as later releases and vendors write them.
SELECT "offset", timestamp, batch_base_offset, file, position, control,
  CAST(regexp_extract(type, '[0-9]+') AS INT) AS type_id, version, raw AS value
FROM records WHERE type LIKE 'UNKNOWN(%'
UNION ALL
SELECT "offset", timestamp, batch_base_offset, file, position, control,
  CAST(regexp_extract(type, '[0-9]+') AS INT) AS type_id, version, raw AS value
FROM snapshot_records WHERE type LIKE 'UNKNOWN(%'
