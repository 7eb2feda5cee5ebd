SELECT *, epoch_ms(from_time) - epoch_ms(last_time) AS gap_ms
FROM (
  SELECT epoch, controller, from_offset, from_time,
    lag(epoch) OVER in_order AS previous_epoch,
    lag(controller) OVER in_order AS previous_controller,
    lag(last_offset) OVER in_order AS last_offset,
    lag(last_time) OVER in_order AS last_time
  FROM controller_epochs LEFT JOIN (
    SELECT epoch, max(last_offset) AS last_offset, last(last_time ORDER BY last_offset) AS last_time
    FROM record_counts GROUP BY epoch
  ) USING (epoch)
  WINDOW in_order AS (ORDER BY epoch)
) WHERE previous_epoch IS NOT NULL
