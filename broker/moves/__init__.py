"""Moves of replicas between the log directories of this broker, while they serve."""
