"""Questions to a log or to its tables: why, what if, as of, what differs."""
