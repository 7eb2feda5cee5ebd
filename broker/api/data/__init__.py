"""Requests that read and write records."""
