"""What jbod-log-dirs does, one module for each command."""
