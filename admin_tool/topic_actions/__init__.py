"""What jbod-topics does, one module for each action."""
