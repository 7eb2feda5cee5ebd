SELECT what, from_time, change, cause, sum(changes) AS changes, sum(to_none) AS to_none
FROM changes GROUP BY what, from_time, change, cause
