SELECT * FROM failure_courses WHERE directory IS NULL
