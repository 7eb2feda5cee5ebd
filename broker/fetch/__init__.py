"""What consumers and followers read."""
