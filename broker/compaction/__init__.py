"""Log compaction: which log is next, one round of it, and what is known of the rounds so far."""
