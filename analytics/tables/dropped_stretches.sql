-- Step (kept): offsets that never took effect: of an aborted transaction, or of one that is open at
-- the end of the log, which the next controller will abort (KIP-868).
SELECT cluster, begun AS from_offset, `offset` AS to_offset
FROM transaction_markers WHERE begun IS NOT NULL AND type <> 'END_TRANSACTION_RECORD'
UNION ALL
SELECT m.cluster, m.`offset`, l.end_offset
FROM transaction_markers m JOIN log_layouts l ON m.cluster = l.cluster
WHERE m.is_last AND m.type = 'BEGIN_TRANSACTION_RECORD'
