-- One interval in which a partition had one leader, or none.
--
-- order by: cluster, topic, topic_id, partition, valid_from_offset
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partition (int): partition of the topic
-- leader (int): broker that led; -1 = none
-- leader_epoch (int): leader epoch at the begin of the interval
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
-- valid_to_offset (long): offset of the record that ended this state; null = still
-- valid_to_time (timestamp): time of that record; null = still
-- duration_ms (long): milliseconds from begin to end; null = still
-- cause (string): why the interval began: created, directory (the former leader's log directory
--   went offline), broker (it was fenced), controlled_shutdown, unregistered, reassignment,
--   preferred (back to the first replica), unclean (out of the ISR), recovered (from none),
--   snapshot, unknown
-- previous_leader (int): leader of the interval before; null = there was none
-- broker (int): the broker that was lost, where that is the cause
-- directory (string): the directory that went offline, where that is the cause
WITH begun AS (
  SELECT c.*, l.why, l.why_at_once, l.directory AS lost_directory,
    CASE WHEN is_first THEN NULL ELSE former_leader END AS previous_leader,
    NOT array_contains(replicas, former_leader) AS is_gone,
    array_contains(removing_replicas, former_leader)
      OR array_contains(former_removing, former_leader) AS is_leaving,
    -- A leader that stays in sync was only replaced, whatever becomes of it soon after.
    leader = -1 OR NOT array_contains(isr, former_leader) AS is_dropped,
    leader <> -1 AND (leader_recovery_state = 1
      OR NOT array_contains(former_isr, leader) AND NOT array_contains(former_elr, leader)) AS is_unclean,
    size(replicas) > 0 AND leader = CASE WHEN size(replicas) > 0 THEN element_at(replicas, 1) END
      AS is_preferred,
    size(adding_replicas) > 0 OR size(removing_replicas) > 0 AS is_moving
  FROM partition_states c
  LEFT JOIN lost_replicas l ON l.of = 'leader' AND c.cluster = l.cluster AND c.topic_id = l.topic_id
    AND c.partition = l.partition AND c.life = l.life AND c.seq = l.seq
  WHERE is_first OR leader <> former_leader
), judged AS (
  -- What was lost comes first: an election out of the ISR because a directory failed is put down to
  -- the directory.
  SELECT *, CASE WHEN is_dropped AND NOT is_gone AND NOT is_leaving THEN why ELSE why_at_once END
    AS loss
  FROM begun
), explained AS (
  SELECT *, CASE
      WHEN record_type = 'SNAPSHOT' THEN 'snapshot'
      WHEN is_first THEN 'created'
      WHEN former_leader = -1 THEN CASE WHEN is_unclean THEN 'unclean' ELSE 'recovered' END
      WHEN is_gone OR is_leaving AND loss = 'unknown' THEN 'reassignment'
      WHEN loss = 'fenced' THEN 'broker'
      WHEN loss <> 'unknown' THEN loss
      WHEN is_unclean THEN 'unclean'
      WHEN is_preferred THEN 'preferred'
      WHEN is_moving THEN 'reassignment'
      ELSE 'unknown' END AS cause,
    lead(valid_from_offset) OVER in_order AS next_offset,
    lead(valid_from_time) OVER in_order AS next_time, lead(seq) OVER in_order AS next_seq
  FROM judged
  WINDOW in_order AS (PARTITION BY topic_id, partition, cluster, life ORDER BY seq)
), ended AS (
  SELECT *, CASE WHEN next_seq IS NULL THEN life_to_offset ELSE next_offset END AS to_offset,
    CASE WHEN next_seq IS NULL THEN life_to_time ELSE next_time END AS to_time
  FROM explained
)
SELECT cluster, topic, topic_id, partition, leader, leader_epoch, valid_from_offset, valid_from_time,
  record_type, batch_base_offset, to_offset AS valid_to_offset, to_time AS valid_to_time,
  CASE WHEN to_offset IS NOT NULL THEN unix_micros(to_time) - unix_micros(valid_from_time) END
    DIV 1000 AS duration_ms,
  cause, previous_leader,
  CASE WHEN cause IN ('directory', 'broker', 'controlled_shutdown', 'unregistered')
    THEN previous_leader END AS broker,
  CASE WHEN cause = 'directory' THEN lost_directory END AS directory
FROM ended
