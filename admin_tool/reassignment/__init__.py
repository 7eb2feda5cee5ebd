"""What jbod-reassign-partitions does: a module for each action, and what they share."""
