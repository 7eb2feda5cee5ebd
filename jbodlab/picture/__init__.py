"""State of a cluster in a moment."""
