"""How the topic of coordinators is made."""

from __future__ import annotations

import pytest

from broker.coordination.internal_topics import internal_topic


@pytest.mark.parametrize(
    ("wanted", "registered", "factor", "min_isr"),
    [(3, 1, 1, "1"), (3, 2, 2, "2"), (3, 3, 3, "2"), (3, 9, 3, "2"), (1, 3, 1, "1")],
)
def test_factor_is_clipped_to_the_registered_brokers_and_a_commit_is_on_two_disks_if_it_can(
    wanted: int, registered: int, factor: int, min_isr: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = internal_topic(
        "__consumer_offsets",
        num_partitions=50,
        replication_factor=wanted,
        segment_bytes=16 << 20,
        registered_brokers=registered,
    )

    assert (topic.num_partitions, topic.replication_factor) == (50, factor)
    assert dict(topic.configs) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "min.insync.replicas": min_isr,
        "segment.bytes": str(16 << 20),
    }
    said = [record.getMessage() for record in caplog.records]
    assert said == (
        [
            f"creating __consumer_offsets with replication factor {factor} instead of 3: no more "
            "brokers are registered"
        ]
        if factor < wanted
        else []
    )
