-- Step: a record that opens or closes a metadata transaction where it does not belong.
SELECT cluster, file, `offset`, concat(type, CASE WHEN begun IS NULL
    THEN ' outside of any transaction' ELSE concat(' inside the one of ', begun, ' transaction') END)
    AS message
FROM transaction_markers WHERE (type = 'BEGIN_TRANSACTION_RECORD') = (begun IS NOT NULL)
