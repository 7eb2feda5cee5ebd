"""Requests about log directories."""
