"""Requests that the controller decides."""
