-- One registered broker at the end of the log.
--
-- order by: cluster, broker
--
-- cluster (string): label of the cluster
-- broker (int): id of the broker, under the name that all tables have for it
-- broker_id (int): the same, under the name of the record's field
-- broker_epoch (long): fencing token of the registration
-- incarnation_id (string): new with each start of the process
-- end_points (end_point[]): its listeners
-- features (feature[]): levels that it supports
-- rack (string): null = none
-- fenced (boolean): whether it is kept from leading and serving
-- in_controlled_shutdown (boolean): whether it asked to leave
-- log_dirs (string[]): ids of its online log directories
-- cordoned_log_dirs (string[]): ids of directories that take no new replicas
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
SELECT cluster, broker, broker AS broker_id, broker_epoch, incarnation_id, end_points, features, rack,
  fenced, in_controlled_shutdown, log_dirs, cordoned_log_dirs, valid_from_offset, valid_from_time,
  record_type, batch_base_offset
FROM broker_states WHERE valid_to_offset IS NULL
