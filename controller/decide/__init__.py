"""Decisions: a request and the state give records. Pure."""
