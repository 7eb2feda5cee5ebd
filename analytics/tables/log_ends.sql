-- Step (kept): the time of the last record of a log, up to which counts what still holds, and the
-- length of the stretches that changes are counted by: a usual one, of which 200 cover the log.
WITH counts AS (
  SELECT cluster, max(named_struct('offset', last_offset, 'time', last_time)) AS last,
    min(earliest_time) AS earliest, max(latest_time) AS latest
  FROM record_counts GROUP BY cluster
), registered AS (
  SELECT cluster, max(valid_from_time) AS since FROM brokers GROUP BY cluster
), spans AS (
  SELECT l.cluster, coalesce(c.last.time, r.since) AS end_time,
    greatest(1, (unix_micros(latest) DIV 1000 - unix_micros(earliest) DIV 1000 + 199) DIV 200)
      AS wanted
  FROM log_layouts l LEFT JOIN counts c ON l.cluster = c.cluster LEFT JOIN registered r ON l.cluster = r.cluster
), widths AS (
  SELECT cluster, min(width) AS width
  FROM (SELECT cluster, wanted, explode(array(10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000,
    15000, 30000, 60000, 120000, 300000, 600000, 900000, 1800000, 3600000, 7200000, 10800000, 21600000,
    43200000, 86400000, 172800000, 604800000, 1209600000, 2419200000)) AS width FROM spans) w
  WHERE width >= wanted GROUP BY cluster
)
SELECT s.cluster, s.end_time, CAST(CASE WHEN s.wanted IS NULL THEN 1000 WHEN w.width IS NOT NULL
    THEN w.width ELSE (s.wanted + 86399999) DIV 86400000 * 86400000 END AS BIGINT) AS stretch_ms
FROM spans s LEFT JOIN widths w ON s.cluster = w.cluster
