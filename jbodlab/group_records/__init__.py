"""The records of `__consumer_offsets`: what a group coordinator keeps in its log."""
