SELECT make_timestamptz(stretch(epoch_us(timestamp))) AS from_time, type, count(*) AS records,
  stretch_us() // 1000 AS stretch_ms
FROM records GROUP BY ALL
