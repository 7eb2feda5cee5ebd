-- Every online directory and every registered broker.
SELECT 'directory' AS scope, broker, directory FROM log_dirs
WHERE state = 'online' AND valid_to_offset IS NULL
UNION ALL
SELECT 'broker', broker, NULL FROM brokers
