-- One epoch of the quorum, led by one controller.
--
-- order by: cluster, epoch
--
-- cluster (string): label of the cluster
-- epoch (int): epoch of the quorum's leader
-- controller (int): node id of the controller; null if no record says
-- from_offset (long): first offset written in this epoch
-- from_time (timestamp): time of that record
-- to_offset (long): first offset of the next epoch; null = still
-- to_time (timestamp): time of that record; null = still
-- records (long): records written in this epoch
WITH epochs AS (
  SELECT cluster, epoch, sum(records) AS records,
    min(named_struct('offset', first_offset, 'time', first_time)) AS first
  FROM record_counts GROUP BY cluster, epoch
), elected AS (
  SELECT cluster, epoch, get_json_object(payload, '$.leaderId') AS controller,
    row_number() OVER (PARTITION BY cluster, epoch ORDER BY replay_position, `offset`) AS rank
  FROM few_records WHERE type = 'LEADER_CHANGE' AND NOT snapshot
)
SELECT e.cluster, e.epoch, CAST(l.controller AS INT) AS controller, e.first.`offset` AS from_offset,
  e.first.time AS from_time, lead(e.first.`offset`) OVER in_order AS to_offset,
  lead(e.first.time) OVER in_order AS to_time, CAST(e.records AS BIGINT) AS records
FROM epochs e LEFT JOIN elected l ON l.rank = 1 AND e.cluster = l.cluster AND e.epoch = l.epoch
WINDOW in_order AS (PARTITION BY e.cluster ORDER BY e.first.`offset`)
