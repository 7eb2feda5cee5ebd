-- One warning or error about a log directory in a broker's own log, where logs were given.
--
-- order by: cluster, file, line
--
-- cluster (string): label of the cluster
-- broker (int): broker that wrote it; null if its file does not say
-- directory (string): id of the directory, of the line or of the failure it tells of
-- detected_offset (long): the failure that it tells of, as in directory_failures: the only one of
--   this broker that the controller recorded within a minute; null = none, or several
-- time (timestamp): time of the line, which has no zone: taken as UTC
-- level (string): WARN, ERROR, ...
-- log_dir (string): path of the directory
-- message (string): the broker's own words
-- file (string): file of the line
-- line (long): number of the line in it
--
-- A line tells of the only failure of its broker, and of its directory if it names one, that the
-- controller recorded within a minute, or up to one second before: clocks differ.
WITH near AS (
  SELECT g.cluster, g.file, g.line, count(*) AS times,
    min(named_struct('offset', f.detected_offset, 'directory', f.directory)) AS told
  FROM given_broker_log_lines g JOIN directory_failures f ON g.cluster = f.cluster AND g.broker = f.broker
    AND unix_micros(f.detected_time) BETWEEN unix_micros(g.time) - 1000000
      AND unix_micros(g.time) + 60000000
    AND (g.directory IS NULL OR g.directory = f.directory)
  GROUP BY g.cluster, g.file, g.line
)
SELECT g.cluster, g.broker, CASE WHEN n.times = 1 THEN n.told.directory ELSE g.directory END AS directory,
  CASE WHEN n.times = 1 THEN n.told.`offset` END AS detected_offset, g.time, g.level, g.log_dir,
  g.message, g.file, g.line
FROM given_broker_log_lines g
LEFT JOIN near n ON g.cluster = n.cluster AND g.file = n.file AND g.line = n.line
