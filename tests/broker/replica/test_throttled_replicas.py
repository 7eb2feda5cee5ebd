"""Which replicas a throttle is for."""

from __future__ import annotations

from broker.replica.throttled_replicas import ThrottledReplicas


def test_replicas_are_throttled_by_partition_and_broker_or_all() -> None:
    named = ThrottledReplicas(frozenset({(0, 1)}))
    assert [named.covers(*pair) for pair in [(0, 1), (0, 2), (1, 1)]] == [True, False, False]
    assert ThrottledReplicas(None).covers(7, 7)
    assert not ThrottledReplicas().covers(0, 1)
