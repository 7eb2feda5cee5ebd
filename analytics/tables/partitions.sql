-- One partition at the end of the log.
--
-- order by: cluster, topic, partition
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partition (int): partition of the topic
-- leader (int): broker that leads; -1 = none
-- leader_epoch (int): rises with every election
-- partition_epoch (int): rises with every change
-- leader_recovery_state (int): 0 recovered, 1 recovering from an unclean election
-- replicas (int[]): brokers, the preferred leader first
-- isr (int[]): replicas in sync
-- removing_replicas (int[]): replicas that leave in a running reassignment
-- adding_replicas (int[]): replicas that join in a running reassignment
-- directories (string[]): directory id of each replica, in the order of replicas
-- eligible_leader_replicas (int[]): ELR: replicas outside the ISR that may lead
-- last_known_elr (int[]): members that the ELR had before it was lost
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
SELECT cluster, topic, topic_id, partition, leader, leader_epoch, partition_epoch,
  leader_recovery_state, replicas, isr, removing_replicas, adding_replicas, directories,
  eligible_leader_replicas, last_known_elr, valid_from_offset, valid_from_time, record_type,
  batch_base_offset
FROM partition_states WHERE valid_to_offset IS NULL
