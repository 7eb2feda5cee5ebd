"""Breaks real log directories from outside, proves that it bites, and undoes it exactly."""
