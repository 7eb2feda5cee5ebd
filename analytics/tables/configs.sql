-- One interval in which a setting was set to one value.
--
-- order by: cluster, resource_type, resource_name, name, valid_from_offset
--
-- cluster (string): label of the cluster
-- resource_type (string): broker, topic, ... as Kafka names the kind
-- resource_name (string): name of the topic, id of the broker; empty = all brokers
-- name (string): key of the setting
-- value (string): its value
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
-- valid_to_offset (long): offset of the record that ended this state; null = still
-- valid_to_time (timestamp): time of that record; null = still
SELECT cluster, resource_type, resource_name, name, value, valid_from_offset, valid_from_time,
  record_type, batch_base_offset, valid_to_offset, valid_to_time
FROM (
  SELECT *, lead(valid_from_offset) OVER in_order AS valid_to_offset,
    lead(valid_from_time) OVER in_order AS valid_to_time
  FROM config_steps
  WINDOW in_order AS (PARTITION BY cluster, resource_type, resource_name, name
    ORDER BY replay_position, `offset`)
) s WHERE value IS NOT NULL
