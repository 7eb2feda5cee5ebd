"""The bounds of a broker, and what the process may use."""
