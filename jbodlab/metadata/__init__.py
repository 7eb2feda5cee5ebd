"""Metadata of a cluster: its records, its image, its log."""
