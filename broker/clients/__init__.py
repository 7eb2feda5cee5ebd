"""Clients: their quotas, the bytes that they send and fetch, sessions, regular expressions."""
