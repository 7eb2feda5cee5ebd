"""Effect of the loss of a directory, a broker or a rack, from a cluster's present state."""
