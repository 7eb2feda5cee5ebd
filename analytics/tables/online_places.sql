-- Step: every online directory and every registered broker.
SELECT cluster, 'directory' AS scope, broker, directory FROM log_dirs
WHERE state = 'online' AND valid_to_offset IS NULL
UNION ALL
SELECT cluster, 'broker', broker, NULL FROM brokers
