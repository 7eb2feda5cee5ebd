-- One type of records in one stretch of time, a two-hundredth of the log or more.
--
-- order by: cluster, from_time, type
--
-- cluster (string): label of the cluster
-- from_time (timestamp): begin of the stretch of time; null = the times are not known
-- type (string): type of the records
-- records (long): how many there are
-- stretch_ms (long): length of the stretch in milliseconds
SELECT cluster, timestamp_micros(stretch) AS from_time, type, count(*) AS records, stretch_ms
FROM (
  SELECT r.cluster, r.type, e.stretch_ms, unix_micros(r.timestamp) - pmod(unix_micros(r.timestamp), e.stretch_ms * 1000) AS stretch
  FROM log_rows r JOIN log_ends e ON r.cluster = e.cluster
  WHERE r.problem IS NULL AND NOT r.snapshot
) s GROUP BY cluster, stretch, type, stretch_ms
