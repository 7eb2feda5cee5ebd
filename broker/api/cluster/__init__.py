"""Requests that describe the cluster."""
