"""Leadership of the metadata log, and the offset up to which the log is committed."""
