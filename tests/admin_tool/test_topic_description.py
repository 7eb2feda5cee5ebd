from __future__ import annotations

from uuid import UUID

import pytest

from admin_tool.requests.configs import ConfigEntry, Source
from admin_tool.requests.reassignments import Reassignment
from admin_tool.requests.topics import PartitionDescription, TopicDescription
from admin_tool.topic_actions.description import (
    Report,
    min_isr,
    overrides,
    partition_line,
    replication_factor,
    topic_line,
)

LIVE = frozenset({1, 2, 3})
HEALTHY = PartitionDescription(
    index=0, leader=1, replicas=(1, 2, 3), isr=(1, 2, 3), elr=(), last_known_elr=()
)
MOVING = Reassignment(replicas=(1, 2, 3), adding=(3,), removing=(1,))


def test_a_healthy_partition_names_nobody_offline() -> None:
    assert partition_line("foo", HEALTHY, None) == (
        "\tTopic: foo\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3"
        "\tElr: \tLastKnownElr: \tOffline: "
    )


def test_offline_replicas_are_the_last_column_and_unknown_ones_are_said_so() -> None:
    partition = PartitionDescription(
        index=4, leader=None, replicas=(2, 3, 1), isr=(2,), offline=(3, 1)
    )
    assert partition_line("foo", partition, None) == (
        "\tTopic: foo\tPartition: 4\tLeader: none\tReplicas: 2,3,1\tIsr: 2"
        "\tElr: N/A\tLastKnownElr: N/A\tOffline: 3,1"
    )


def test_a_reassignment_stands_behind_the_isr() -> None:
    assert "\tIsr: 1,2,3\tAdding Replicas: 3\tRemoving Replicas: 1\tElr: " in partition_line(
        "foo", HEALTHY, MOVING
    )


def test_replicas_being_added_do_not_count() -> None:
    assert replication_factor(HEALTHY, None) == 3
    assert replication_factor(HEALTHY, MOVING) == 2
    ended = Reassignment(replicas=(8, 9), adding=(9,), removing=())
    assert replication_factor(HEALTHY, ended) == 3


def test_the_topic_line_shows_what_somebody_set() -> None:
    topic = TopicDescription(name="foo", topic_id=UUID(int=1), partitions=(HEALTHY,))
    entries = (
        ConfigEntry(name="retention.ms", value="1000", source=1),
        ConfigEntry(name="min.insync.replicas", value="2", source=4),
        ConfigEntry(name="segment.bytes", value="1", source=Source.DEFAULT),
    )
    assert topic_line(topic, None, overrides(entries)) == (
        "Topic: foo\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 1\tReplicationFactor: 3"
        "\tConfigs: retention.ms=1000,min.insync.replicas=2"
    )
    assert min_isr(entries) == 2
    assert min_isr(()) is None


@pytest.mark.parametrize(
    ("leader", "isr", "shown"),
    [
        (1, (1, 2, 3), set()),
        (1, (1, 2), {"under_replicated", "at_min_isr"}),
        (1, (1,), {"under_replicated", "under_min_isr"}),
        (None, (1, 2, 3), {"unavailable", "under_min_isr"}),
        (9, (1, 2, 3), {"unavailable"}),
    ],
)
def test_each_filter_shows_its_partitions(
    leader: int | None, isr: tuple[int, ...], shown: set[str]
) -> None:
    partition = PartitionDescription(index=0, leader=leader, replicas=(1, 2, 3), isr=isr)
    filters = ("under_replicated", "unavailable", "under_min_isr", "at_min_isr")
    assert {
        name for name in filters if Report(**{name: True}).shows(partition, None, LIVE, 2)
    } == shown
    assert Report().shows(partition, None, LIVE, 2)
    assert not Report(overrides_only=True).shows(partition, None, LIVE, 2)


def test_several_filters_add_up() -> None:
    both = Report(under_replicated=True, unavailable=True)
    assert both.filters
    assert not both.shows(HEALTHY, None, LIVE, 1)
    lagging = PartitionDescription(index=0, leader=1, replicas=(1, 2), isr=(1,))
    assert both.shows(lagging, None, LIVE, 1)
