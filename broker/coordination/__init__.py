"""Coordinators: replicated state machines, one for each partition of an internal topic led here.

`core.py` is the contract of a state machine, which is pure; `shard.py` is the shell around it:
life, log, clock and the requests that wait. `broker.groups` is the first state machine.
"""
