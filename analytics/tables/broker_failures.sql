-- One time that a broker stopped serving, from then until it is unfenced again.
--
-- order by: cluster, detected_offset, broker
--
-- cluster (string): label of the cluster
-- broker (int): id of the broker
-- began_by (string): fenced (its heartbeats were missing), controlled_shutdown (it asked to leave),
--   registered (a new process registered before the former one was missed), unregistered (it was
--   removed), snapshot (known from a snapshot only, so that what it led is not known)
-- detected_offset (long): offset of the record that says so
-- detected_time (timestamp): time of that record
-- partitions_touched (long): replicas that were placed there then
-- leaders_moved (long): partitions led there that got another leader at once
-- leaders_lost (long): partitions led there that were left without a leader
-- leaders_still_lost (long): how many of these had no leader again up to the end of the log, or
--   their own
-- last_leader_offset (long): offset at which the last of these partitions had a leader again, of
--   those that got one; null = none did, or none was led there
-- last_leader_time (timestamp): time of that record
-- last_leader_in_same_batch (boolean): whether that record was written at once with the one of the
--   failure: detection and election then have one time; null = no such record exists
-- time_to_last_leader_ms (long): milliseconds from detection to the last new leader; null = there
--   was none, or in the same batch
-- full_isr_offset (long): offset at which every touched partition had had its full ISR and a leader
--   again, or was gone; null = not yet
-- full_isr_time (timestamp): time of that record
-- time_to_full_isr_ms (long): milliseconds from detection to the full ISR
-- state (string): open or closed
-- closed_offset (long): offset at which it ended; null = open
-- closed_time (timestamp): time of that record
-- leaderless (long): partitions that had no leader because of it, at any time
-- leaderless_ms (long): for how long, summed; to the end of the log if they still have none
-- longest_leaderless_ms (long): the longest of these times; null = there is none
-- under_min_isr (long): partitions that had too few replicas in sync because of it
-- under_min_isr_ms (long): for how long, summed; to the end of the log if they still have
-- longest_under_min_isr_ms (long): the longest of these times; null = there is none
-- still_short (long): partitions that are so at the end of the log
-- closed_by (string): unfenced (it serves again), unregistered (it was removed), replicas_gone (no
--   replica is placed there any more), snapshot (known from a snapshot only); null = open
SELECT cluster, broker, began_by, detected_offset, detected_time, partitions_touched, leaders_moved, leaders_lost,
  leaders_still_lost, last_leader_offset, last_leader_time, last_leader_in_same_batch,
  time_to_last_leader_ms, full_isr_offset, full_isr_time, time_to_full_isr_ms, state, closed_offset,
  closed_time, leaderless, leaderless_ms, longest_leaderless_ms, under_min_isr, under_min_isr_ms,
  longest_under_min_isr_ms, still_short, closed_by
FROM failure_courses WHERE directory IS NULL
