-- Step: a record that opens or closes a metadata transaction, with the one that is open before it.
SELECT cluster, file, `offset`, type,
  CASE WHEN lag(type) OVER in_order = 'BEGIN_TRANSACTION_RECORD' THEN lag(`offset`) OVER in_order END
    AS begun,
  row_number() OVER (PARTITION BY cluster ORDER BY `offset` DESC) = 1 AS is_last
FROM log_rows
WHERE problem IS NULL AND NOT snapshot
  AND type IN ('BEGIN_TRANSACTION_RECORD', 'END_TRANSACTION_RECORD', 'ABORT_TRANSACTION_RECORD')
WINDOW in_order AS (PARTITION BY cluster ORDER BY `offset`)
