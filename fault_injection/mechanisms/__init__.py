"""Mechanisms of faults: file operations, rules for calls, disks, processes."""
