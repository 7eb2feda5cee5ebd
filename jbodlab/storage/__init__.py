"""Files of log directories."""
