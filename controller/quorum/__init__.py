"""Who leads the metadata log, and how far the log is committed."""
