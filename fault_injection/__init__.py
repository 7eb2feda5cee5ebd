"""Breaks real log directories from outside, proves the effect, and reverts it exactly."""
