"""Decisions about topics and partitions."""
