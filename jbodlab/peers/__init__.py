"""Connections to other nodes."""
