"""How a log directory opens, loads, comes back and closes."""
