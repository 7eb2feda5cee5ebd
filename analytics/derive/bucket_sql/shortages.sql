-- A partition without leader can be neither read nor written. Under min ISR it can be read, but not
-- written by a producer that wants all acknowledgements (acks=all).
SELECT topic_id, kind, from_time, CASE WHEN is_open THEN log_end() ELSE to_time END AS to_time,
  count(*) AS count
FROM (
  SELECT topic_id, kind, from_time, to_offset IS NULL AS is_open, to_time FROM outages
  UNION ALL
  SELECT topic_id, what, from_time, is_open, to_time FROM joined_intervals WHERE what = 'unwritable'
) GROUP BY ALL
