"""What a cluster is like in a moment."""
