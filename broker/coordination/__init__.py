"""Coordinators of groups: one shard for each partition of `__consumer_offsets` that is led here.

What a shard decides is pure (`broker.groups`); here are its life, its log, its clock and the
requests that wait for it.
"""
