"""A whole cluster on one machine, as processes: up, status, down, and the demo."""
