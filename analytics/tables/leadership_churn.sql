-- One partition whose leader changed at least once.
--
-- order by: cluster, topic, partition
--
-- cluster (string): label of the cluster
-- topic (string): name of the topic
-- topic_id (string): id of the topic
-- partition (int): partition of the topic
-- changes (long): how often; the begin of the partition or of the log is not a change
-- to_none (long): how many of these left it without a leader
-- first_time (timestamp): when its leader changed first
-- last_time (timestamp): when its leader changed last
SELECT cluster, topic, topic_id, partition, changes, to_none, first.time AS first_time,
  last.time AS last_time
FROM (
  SELECT cluster, max(topic) AS topic, topic_id, partition, count(*) AS changes,
    count_if(leader = -1) AS to_none,
    min(named_struct('offset', valid_from_offset, 'time', valid_from_time)) AS first,
    max(named_struct('offset', valid_from_offset, 'time', valid_from_time)) AS last
  FROM leadership WHERE cause NOT IN ('created', 'snapshot')
  GROUP BY topic_id, partition, cluster
) s
