"""What jbod-configs does, an action a module."""
