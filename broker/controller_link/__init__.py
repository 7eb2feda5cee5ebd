"""This broker's exchange with the controller: channel, life, assignments, metadata."""
