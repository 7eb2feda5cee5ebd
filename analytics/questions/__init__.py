"""Questions to a log without Spark: what holds at a moment, and which records led to it."""
