"""Sockets: listeners and connections; what a request means is the business of `broker.api`."""
