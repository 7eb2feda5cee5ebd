"""What the members of the demo's group note."""

from __future__ import annotations

from lab.traffic import ConsumerGroup


def test_partitions_that_are_handed_on_when_all_is_read_are_no_rebalance() -> None:
    group = ConsumerGroup("127.0.0.1:1", "orders", 1)
    (member,) = group._members
    try:
        member._assigned(None, None)
        assert group.rebalances(after_ns=0) == 1

        group.finish({}, give_up_after_s=60)
        member._assigned(None, None)
        assert group.rebalances(after_ns=0) == 1
    finally:
        member._client.close()
