-- One change of the replicas in sync of one partition.
--
-- order by: cluster, topic, topic_id, partition, offset
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partition (int): partition of the topic
-- offset (long): offset of the record
-- time (timestamp): time of the record
-- record_type (string): type of the record
-- batch_base_offset (long): first offset of its batch
-- change (string): shrink, expand or replace (both at once)
-- isr (int[]): replicas in sync afterwards
-- previous_isr (int[]): replicas in sync before
-- joined (int[]): replicas that came in
-- left (int[]): replicas that went out
-- leader_epoch (int): leader epoch afterwards
-- partition_epoch (int): partition epoch afterwards
-- cause (string): directory, broker, controlled_shutdown, reassignment, follower (it fell behind or
--   caught up), elected (it leads where nobody did), unknown
-- broker (int): the broker that was lost, where that is the cause
-- directory (string): the directory that went offline, where that is the cause
WITH explained AS (
  SELECT c.*, l.broker, l.directory, CASE
      WHEN record_type = 'SNAPSHOT' THEN 'unknown'
      WHEN size(filter(isr_left, each -> NOT array_contains(replicas, each))) > 0
        OR size(filter(isr_joined, each -> array_contains(former_adding, each))) > 0 THEN 'reassignment'
      WHEN l.why = 'directory' THEN 'directory'
      WHEN l.why IN ('fenced', 'unregistered') THEN 'broker'
      WHEN l.why = 'controlled_shutdown' THEN 'controlled_shutdown'
      WHEN leader = former_leader THEN 'follower'
      -- A leader where there was none, out of the ELR or at all costs, is in sync with itself.
      WHEN former_leader = -1 AND leader <> -1 THEN 'elected'
      ELSE 'unknown' END AS cause
  FROM partition_states c
  LEFT JOIN lost_replicas l ON l.of = 'isr' AND c.cluster = l.cluster AND c.topic_id = l.topic_id
    AND c.partition = l.partition AND c.life = l.life AND c.seq = l.seq
  WHERE is_isr_changed AND (size(isr_joined) > 0 OR size(isr_left) > 0)
)
SELECT cluster, topic, topic_id, partition, valid_from_offset AS `offset`, valid_from_time AS time,
  record_type, batch_base_offset,
  CASE WHEN size(isr_joined) = 0 THEN 'shrink' WHEN size(isr_left) = 0 THEN 'expand' ELSE 'replace' END
    AS change,
  isr, former_isr AS previous_isr, isr_joined AS joined, isr_left AS `left`, leader_epoch,
  partition_epoch, cause,
  CASE WHEN cause IN ('directory', 'broker', 'controlled_shutdown') THEN broker END AS broker,
  CASE WHEN cause = 'directory' THEN directory END AS directory
FROM explained
