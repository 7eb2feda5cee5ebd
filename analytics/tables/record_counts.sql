-- One type of records of one epoch; without the snapshots.
--
-- order by: cluster, epoch, type
--
-- cluster (string): label of the cluster
-- epoch (int): epoch of the controller that wrote them
-- type (string): type of the records
-- records (long): how many there are
-- first_offset (long): offset of the first one
-- first_time (timestamp): time of that record
-- last_offset (long): offset of the last one
-- last_time (timestamp): time of that record
-- earliest_time (timestamp): least time of them; clocks are set back at times
-- latest_time (timestamp): greatest time of them
WITH firsts AS (
  SELECT cluster, epoch, type, count(*) AS records,
    min(named_struct('offset', `offset`, 'time', timestamp)) AS first,
    max(named_struct('offset', `offset`, 'time', timestamp)) AS last,
    min(timestamp) AS earliest_time, max(timestamp) AS latest_time
  FROM log_rows WHERE problem IS NULL AND NOT snapshot AND type IS NOT NULL
  GROUP BY cluster, epoch, type
)
SELECT cluster, epoch, type, records, first.`offset` AS first_offset, first.time AS first_time,
  last.`offset` AS last_offset, last.time AS last_time, earliest_time, latest_time
FROM firsts
