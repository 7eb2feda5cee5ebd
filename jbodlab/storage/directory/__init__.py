"""Files of a log directory outside its logs: names, locks, checkpoints, meta.properties."""
