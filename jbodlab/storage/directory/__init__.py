"""Files of a log directory that are no log's: names, locks, checkpoints, meta.properties."""
