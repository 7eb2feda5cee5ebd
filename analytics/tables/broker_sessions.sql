-- One interval in which a registered broker was fenced, unfenced or in controlled shutdown.
--
-- order by: cluster, broker, valid_from_offset
--
-- cluster (string): label of the cluster
-- broker (int): id of the broker
-- broker_epoch (long): fencing token of the registration
-- incarnation_id (string): new with each start of the process
-- state (string): fenced, unfenced or controlled_shutdown
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
-- valid_to_offset (long): offset of the record that ended this state; null = still
-- valid_to_time (timestamp): time of that record; null = still
-- duration_ms (long): milliseconds from begin to end; null = still
-- ended_by (string): registered, fenced, unfenced, controlled_shutdown, unregistered, snapshot
--   (known from a snapshot only); null = still
WITH states AS (
  SELECT *, CASE WHEN fenced THEN 'fenced' WHEN in_controlled_shutdown THEN 'controlled_shutdown'
      ELSE 'unfenced' END AS state,
    lag(valid_to_offset) OVER (PARTITION BY cluster, broker ORDER BY seq) AS former_end
  FROM broker_states
), compared AS (
  SELECT *, lag(state) OVER in_order AS former_state, lag(broker_epoch) OVER in_order AS former_epoch,
    lag(incarnation_id) OVER in_order AS former_incarnation
  FROM states
  WINDOW in_order AS (PARTITION BY cluster, broker ORDER BY seq)
), numbered AS (
  SELECT *, sum(CASE WHEN former_end = valid_from_offset AND former_state = state
      AND former_epoch = broker_epoch AND former_incarnation = incarnation_id THEN 0 ELSE 1 END)
      OVER (PARTITION BY cluster, broker ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      AS session
  FROM compared
), bounds AS (
  SELECT *, lag(session) OVER in_order IS DISTINCT FROM session AS is_begin,
    lead(session) OVER in_order IS DISTINCT FROM session AS is_end,
    lead(valid_from_offset) OVER in_order AS next_offset, lead(state) OVER in_order AS next_state
  FROM numbered
  WINDOW in_order AS (PARTITION BY cluster, broker ORDER BY seq)
), ended AS (
  SELECT *, CASE WHEN valid_to_offset IS NULL THEN NULL
      WHEN to_record_type = 'SNAPSHOT' THEN 'snapshot'
      WHEN to_record_type = 'REGISTER_BROKER_RECORD' THEN 'registered'
      WHEN next_offset IS NULL OR next_offset <> valid_to_offset THEN 'unregistered'
      ELSE next_state END AS how
  FROM bounds WHERE is_begin OR is_end
), paired AS (
  SELECT *, CASE WHEN is_end THEN valid_to_offset ELSE lead(valid_to_offset) OVER in_order END
      AS end_offset,
    CASE WHEN is_end THEN valid_to_time ELSE lead(valid_to_time) OVER in_order END AS end_time,
    CASE WHEN is_end THEN how ELSE lead(how) OVER in_order END AS ended_by
  FROM ended
  WINDOW in_order AS (PARTITION BY cluster, broker ORDER BY seq)
)
SELECT cluster, broker, broker_epoch, incarnation_id, state, valid_from_offset, valid_from_time,
  record_type, batch_base_offset, end_offset AS valid_to_offset, end_time AS valid_to_time,
  CASE WHEN end_offset IS NOT NULL THEN (unix_micros(end_time) - unix_micros(valid_from_time)) DIV 1000
    END AS duration_ms,
  ended_by
FROM paired WHERE is_begin
