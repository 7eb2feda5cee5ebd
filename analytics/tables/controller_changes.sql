-- One time that another epoch of the quorum began.
--
-- order by: cluster, epoch
--
-- cluster (string): label of the cluster
-- epoch (int): the new epoch
-- controller (int): node id of its controller; null if no record says
-- previous_controller (int): of the epoch before; null if no record says
-- last_offset (long): offset of the last record of the epoch before
-- last_time (timestamp): time of that record
-- from_offset (long): first offset of the new epoch
-- from_time (timestamp): time of that record
-- gap_ms (long): milliseconds between the two records
WITH ends AS (
  SELECT cluster, epoch, max(named_struct('offset', last_offset, 'time', last_time)) AS last
  FROM record_counts GROUP BY cluster, epoch
), epochs AS (
  SELECT c.*, lag(c.epoch) OVER in_order AS previous_epoch,
    lag(c.controller) OVER in_order AS previous_controller,
    lag(e.last.`offset`) OVER in_order AS last_offset, lag(e.last.time) OVER in_order AS last_time
  FROM controller_epochs c LEFT JOIN ends e ON c.cluster = e.cluster AND c.epoch = e.epoch
  WINDOW in_order AS (PARTITION BY c.cluster ORDER BY c.epoch)
)
SELECT cluster, epoch, controller, previous_controller, last_offset, last_time, from_offset, from_time,
  unix_micros(from_time) DIV 1000 - unix_micros(last_time) DIV 1000 AS gap_ms
FROM epochs WHERE previous_epoch IS NOT NULL
