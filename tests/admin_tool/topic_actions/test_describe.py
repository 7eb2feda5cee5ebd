from __future__ import annotations

from uuid import UUID

import pytest

from admin_tool.topic_actions.describe import (
    FILTERS,
    as_text,
    as_value,
    matches,
    min_isr,
    replication_factor,
)
from jbodlab.kafka_admin.configs import ConfigEntry
from jbodlab.kafka_admin.reassignments import Reassignment
from jbodlab.kafka_admin.topics import PartitionDescription, TopicDescription
from jbodlab.vocabulary.ids import TopicPartition

LIVE = frozenset({1, 2, 3})
HEALTHY = PartitionDescription(
    index=0, leader=1, replicas=(1, 2, 3), isr=(1, 2, 3), elr=(), last_known_elr=()
)
LEADERLESS = PartitionDescription(index=1, leader=None, replicas=(2, 3), isr=(2,), offline=(3, 2))
MOVING = Reassignment(replicas=(1, 2, 3), adding=(3,), removing=(1,))
TWO = ConfigEntry(name="min.insync.replicas", value="2", source=4)


def test_a_topic_is_a_line_its_configs_and_a_table_without_empty_columns() -> None:
    topic = TopicDescription(name="foo", topic_id=UUID(int=1), partitions=(HEALTHY, LEADERLESS))
    value = as_value(topic, topic.partitions, {}, [TWO])
    assert as_text(value) == (
        "foo (AAAAAAAAAAAAAAAAAAAAAQ): 2 partitions, replication factor 3\n"
        "configs: min.insync.replicas=2\n"
        "PARTITION  LEADER  REPLICAS  ISR    OFFLINE\n"
        "        0  1       1,2,3     1,2,3  -\n"
        "        1  none    2,3       2      3,2"
    )


def test_a_reassignment_has_columns() -> None:
    topic = TopicDescription(name="foo", topic_id=UUID(int=1), partitions=(HEALTHY,))
    value = as_value(topic, topic.partitions, {TopicPartition("foo", 0): MOVING}, [])
    assert value["replication_factor"] == 2
    assert as_text(value).splitlines()[1:] == [
        "PARTITION  LEADER  REPLICAS  ISR    OFFLINE  ADDING  REMOVING",
        "        0       1  1,2,3     1,2,3  -             3         1",
    ]


def test_an_unknown_elr_is_null() -> None:
    topic = TopicDescription(name="foo", topic_id=UUID(int=1), partitions=(LEADERLESS,))
    assert as_value(topic, topic.partitions, {}, [])["partitions"] == [
        {
            "partition": 1,
            "leader": None,
            "replicas": [2, 3],
            "isr": [2],
            "offline": [3, 2],
            "adding": [],
            "removing": [],
            "elr": None,
            "last_known_elr": None,
        }
    ]


def test_replicas_being_added_do_not_count() -> None:
    assert replication_factor(HEALTHY, None) == 3
    assert replication_factor(HEALTHY, MOVING) == 2
    ended = Reassignment(replicas=(8, 9), adding=(9,), removing=())
    assert replication_factor(HEALTHY, ended) == 3


def test_min_isr_is_a_config() -> None:
    assert min_isr([TWO]) == 2
    assert min_isr([]) is None


@pytest.mark.parametrize(
    ("leader", "isr", "shown"),
    [
        (1, (1, 2, 3), set()),
        (1, (1, 2), {"under-replicated", "at-min-isr"}),
        (1, (1,), {"under-replicated", "under-min-isr"}),
        (None, (1, 2, 3), {"unavailable", "under-min-isr"}),
        (9, (1, 2, 3), {"unavailable"}),
    ],
)
def test_each_filter_shows_its_partitions(
    leader: int | None, isr: tuple[int, ...], shown: set[str]
) -> None:
    partition = PartitionDescription(index=0, leader=leader, replicas=(1, 2, 3), isr=isr)
    assert {name for name in FILTERS if matches(name, partition, None, LIVE, [TWO])} == shown
