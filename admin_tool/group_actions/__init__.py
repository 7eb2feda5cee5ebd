"""What jbod-consumer-groups does, an action a module."""
