SELECT * FROM failure_courses WHERE directory IS NOT NULL
