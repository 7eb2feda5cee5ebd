"""Requests that wait for a replica, and what wakes them."""
