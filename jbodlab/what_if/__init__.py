"""What the loss of a directory, a broker or a rack would take, from a cluster's present state."""
